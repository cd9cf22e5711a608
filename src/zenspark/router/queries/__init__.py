"""Queries in transit: pending requests, their targets, replies and time-outs."""
