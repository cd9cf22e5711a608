"""Bytes and messages: declarations of all messages, their codec, columns of publications, and templates.

Every message of the protocol is declared once, in `messages.py`.
"""
