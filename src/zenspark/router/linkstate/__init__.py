"""The network of routers and relaying peers: link states, spanning trees, gossip."""
