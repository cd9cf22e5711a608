"""The admin space: the queryable of `@/<zid>/<role>/**`, and a subscriber that refuses writes to `config/**` there."""
