"""Interests: live interests of faces, handling of INTEREST, and the current declarations that a late joiner gets."""
