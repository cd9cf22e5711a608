"""Next hops: tables of declared keys, and the routes of each key."""
