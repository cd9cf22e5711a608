"""The pipeline as one job: record, ingest, answer queries, report."""
