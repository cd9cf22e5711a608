"""Queries on their way: pending requests, and the handling of REQUEST and RESPONSE."""
