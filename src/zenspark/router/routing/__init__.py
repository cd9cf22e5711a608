"""Next hops: tables of declared keys, routes per key, and forwarding plans for runs of publications."""
