"""The only place with sockets, threads and clocks: links that carry bytes, and what runs a node on top of them.

endpoints     where to listen or connect, and how
links         what a link and a listener are, and an in-memory pair
tcp tls udp websocket unix
              one kind of link each
protocols     from the name of a protocol to its links
multicast     groups: one socket that hears everybody
gathering     a node's place in a group: its driver, and the faces of those who are heard there
interfaces    the network interfaces of this machine
scouting      the sockets by which nodes find each other
retry         when to try again
"""
