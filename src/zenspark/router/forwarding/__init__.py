"""Forwarding plans: the next hops that `routes.py` decides, cached and encoded once for each row template."""
