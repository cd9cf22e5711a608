"""Bytes between a link and its session: reading, writing, timers, congestion control, backpressure of forwarded
messages, closing of slow consumers and of expired links, and counters.

`link_driver.py` reads, keeps the timers and closes slow consumers, `writer.py`
sends, `congestion_control.py` blocks or drops publications and detects a stalled link, `forwarding_backpressure.py`
does so for forwarded messages, whose sources it pauses.
"""
