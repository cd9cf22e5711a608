"""Limits of the HTTP server; each prevents one client from taking memory, time or connections of others."""

from __future__ import annotations

MAX_CONNECTIONS = 512
"""Open connections; a further one is rejected with 503. Descriptors and memory of the node must not run out."""
HTTP_LISTEN_BACKLOG_CONNECTIONS = 256
"""Connections that the operating system queues until the server accepts them."""
MAX_HEADER_BYTES = 32 << 10
"""Bytes of request line and headers; more are rejected with 431."""
HEADER_TIMEOUT_SECONDS = 10.0
"""Time in seconds until the headers of a request are complete; then 408."""
IDLE_TIMEOUT_SECONDS = 60.0
"""Time in seconds that a connection may be idle between two requests."""
MAX_BODY_BYTES = 64 << 20
"""Bytes of a request body; more are rejected with 413."""
MAX_API_BODY_BYTES = 16 << 20
"""Bytes of a request body of the page's API."""
BODY_GRACE_SECONDS = 10.0
"""Time in seconds that a request body of any size may take."""
MIN_BODY_BYTES_PER_SECOND = 10_000
"""Bytes per second at which a body that takes longer than `BODY_GRACE_SECONDS` must arrive; slower ones are rejected
with 408."""
CLIENT_STALL_TIMEOUT_SECONDS = 10.0
"""Time in seconds in which a client must read some of the bytes that wait for it; then it is disconnected."""
MAX_STREAMS = 384
"""Event streams and WebSockets; a further one is rejected with 503."""
MAX_STREAM_EVENTS = 4096
"""Events that may wait for one client of an event stream when further ones arrive; else the client is disconnected."""
MAX_STREAM_BYTES = 1 << 20
"""Bytes that may wait for one client of an event stream when further ones arrive; else the client is disconnected."""
MAX_ALL_STREAM_BYTES = 256 << 20
"""Bytes that wait for all clients of event streams; with more, the clients that are behind are disconnected."""
MAX_WORKERS = 32
"""Threads for requests that wait for the network, such as queries."""
MAX_SOCKET_MESSAGE_BYTES = 64 << 10
"""Bytes of a message that a page sends over its WebSocket."""
