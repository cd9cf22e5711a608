"""Values that users hold: samples, queries, selectors, timestamps, identifiers, payloads."""
