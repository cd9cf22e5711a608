"""Answers Zenoh queries from the journal and the lake, as a storage of zenohd would."""
