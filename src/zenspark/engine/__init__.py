"""The runtime of one session: its subscribers, queryables, pending queries and interests, between API and node."""
