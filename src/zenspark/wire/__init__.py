"""Bytes and messages: every message of the protocol, declared once in `messages.py`."""
