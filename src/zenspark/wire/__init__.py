"""Bytes and messages: every message of the protocol is declared once in `messages.py`; codec, columns of publications,
templates.
"""
