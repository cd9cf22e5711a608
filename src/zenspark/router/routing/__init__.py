"""Where messages go: tables of keys, routes, and forwarding plans for rows."""
