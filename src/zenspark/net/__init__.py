"""Zenoh's sockets, event loop and timers: all that the core leaves out.

links   one module for each kind of link (TCP, TLS, UDP, WebSocket, Unix socket, multicast), endpoints and interfaces
loop    the event loop
io      drivers: bytes between a link and its session, with congestion control and counters
node    a node: sessions, listeners, groups, dispatch to the router, connecting and scouting
"""
