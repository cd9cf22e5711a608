"""Links and listeners: what they share, and a module each for TCP, TLS, UDP, WebSocket, Unix sockets, multicast."""
