"""What users import: the API of eclipse-zenoh's Python binding, and what its users miss there."""
