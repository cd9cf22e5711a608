"""The runtime of one session, between API and node: subscribers, queryables, queries, interests, backpressure."""
