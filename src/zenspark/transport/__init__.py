"""Between two ends of a link: opening a session, batches, lanes. Pure machines: bytes in, messages and bytes out."""
