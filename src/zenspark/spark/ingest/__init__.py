"""Ingestion: journals to tables, each batch exactly once; derived tables, compaction and retention."""
