"""The public API: that of eclipse-zenoh's Python binding, and additions such as Arrow batches and link counters."""
