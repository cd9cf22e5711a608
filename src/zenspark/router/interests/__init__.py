"""Interests: which face wants which declarations; a late joiner's INTEREST is answered with the current ones."""
