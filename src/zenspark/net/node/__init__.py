"""A node: listeners, connections, sessions and multicast groups; received messages dispatched to the router and the
session.
"""
