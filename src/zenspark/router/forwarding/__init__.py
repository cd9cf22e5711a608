"""Forwarding plans: the next hops that `routing/routes.py` decides, cached and encoded once for each row template."""
