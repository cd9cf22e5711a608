"""Ingestion: journals to tables, exactly once, and the maintenance of the tables."""
