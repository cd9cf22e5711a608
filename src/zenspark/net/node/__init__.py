"""A node: listeners, connections, sessions, multicast groups, and the dispatch of messages to router and session."""
