"""Queries in flight: pending requests, and the handling of REQUEST and RESPONSE."""
