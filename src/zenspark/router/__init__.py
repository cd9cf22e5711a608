"""Who receives what: declarations in, routes out. A pure state machine, the same for client, peer and router."""
