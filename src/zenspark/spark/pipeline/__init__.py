"""The pipeline as one job: record, ingest, reply to queries, report status."""
