"""Zenoh over HTTP: what zenohd's REST plugin offers, at the same paths and in the same documents."""
