"""The data pipeline on Spark: sources and sinks of format "zenoh", the lake with Spark, SQL functions, key joins."""
