"""Declarations: which face declared what, and which of it was announced to which face."""
