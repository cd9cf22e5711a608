"""The data pipeline on Spark: sources and sinks of format "zenoh", SQL functions, the key-expression join."""
