"""The runtime of one session: subscribers, queryables, pending queries, interests, back-pressure; between API and
node.
"""
