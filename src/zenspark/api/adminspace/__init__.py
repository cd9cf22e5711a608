"""The admin space: the queryable of `@/<zid>/<role>/**`, and a subscriber that rejects writes to `config/**` there."""
