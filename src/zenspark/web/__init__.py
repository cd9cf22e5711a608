"""REST API: Zenoh over HTTP, with the paths and documents of zenohd's REST plugin."""
