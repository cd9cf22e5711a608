"""Recorded traffic: follows both directions of a captured connection and decodes what was sent."""
