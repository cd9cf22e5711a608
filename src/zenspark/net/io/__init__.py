"""Bytes between a link and its session: `driver.py` reads and closes idle links, `writer.py` sends, blocks and drops,
`relay_backpressure.py` pauses sources of slow targets.
"""
