"""Network of routers and relaying peers: link states, spanning trees, gossip."""
