"""The only place with sockets, threads and clocks: links, the event loop, reading and writing, the node."""
