"""Routing: declarations in, next hops out. A pure state machine, the same for client, peer and router."""
