"""Derived tables (`latest`, `gaps`, `traffic`) with Arrow: their definitions, and their rows up to the moment."""
