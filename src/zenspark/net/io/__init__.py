"""What moves bytes between a link and a session: reading, writing, back-pressure, counters."""
