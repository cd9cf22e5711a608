"""Recorded traffic: the bytes of a link, and what was said on it."""
