"""Interests: the live interests of faces, and the handling of INTEREST."""
