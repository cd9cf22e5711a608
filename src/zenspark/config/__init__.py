"""Configuration: zenohd's documents, parsed, checked key by key, and typed."""
