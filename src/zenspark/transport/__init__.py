"""A session between two nodes, or with a multicast group: handshake or JOIN, batches, lanes, fragments, leases.

Pure state machines: bytes in, events and bytes out.
"""
