"""The admin space: the queryables that reply for `@/<zid>/**` with the state of this node."""
