"""Interests: which faces asked for declarations, and the handling of INTEREST."""
