"""One session between two nodes: handshake, batches, lanes, fragments, leases. A pure state machine: bytes in, events
and bytes out.
"""
