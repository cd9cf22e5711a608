"""Zenoh over HTTP: the REST plugin of zenohd, with the same paths and documents."""
