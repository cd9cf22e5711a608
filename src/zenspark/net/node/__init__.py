"""A node: its listeners, connections, sessions and groups, and its place in the network."""
