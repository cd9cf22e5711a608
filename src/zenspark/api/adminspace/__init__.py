"""The admin space: the queryables that answer for `@/<zid>/**` with the state of this node."""
