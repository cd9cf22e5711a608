"""Bytes between a link and its session: `driver.py` reads and keeps the timers, `writer.py` sends, `congestion.py`
blocks or drops publications, `relay_backpressure.py` pauses sources of backlogged targets and closes slow consumers.
"""
