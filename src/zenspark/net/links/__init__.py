"""Links: sockets that carry batches, one module for each protocol, and what they share."""
