"""Declarations: the declarations received from each face, and those announced to each face."""
