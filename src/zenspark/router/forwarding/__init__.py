"""Forwarding plans: where runs of publications go, decided once for each row template."""
