"""Spark data sources: journals in batch and stream, live queries, and backfill."""
