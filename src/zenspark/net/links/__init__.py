"""Links and listeners: one module for each protocol (TCP, TLS, UDP, WebSocket, Unix sockets, multicast), and what they
share.
"""
