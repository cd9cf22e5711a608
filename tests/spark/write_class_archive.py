"""Writes the archive of Java classes, those that an ingest query loads: `python -m tests.spark.write_class_archive`."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import psutil

from tests.class_archive import ARCHIVE, submit_arguments
from tests.spark.crash_load import fill, finish, ingested_rows, job, wait_for

ROWS = 1_000
"""Rows that are ingested, so that the classes of a batch and a refresh are loaded."""
EXIT_SECONDS = 300.0
"""How long Java may take to write the archive when it ends."""


def main() -> None:
    """Run an ingest query whose Java writes the archive when it ends."""
    ARCHIVE.unlink(missing_ok=True)
    os.environ["PYSPARK_SUBMIT_ARGS"] = submit_arguments(f"-XX:ArchiveClassesAtExit={ARCHIVE}")
    with tempfile.TemporaryDirectory() as directory:
        journal, lake = Path(directory, "journal"), Path(directory, "lake")
        fill(journal, ROWS)
        with job(journal, lake, "local[2]") as process:
            wait_for(lambda: ingested_rows(lake) >= ROWS, "nothing is ingested")
            java = [child for child in process.children(recursive=True) if child.name() == "java"]
            finish(process)
            psutil.wait_procs(java, timeout=EXIT_SECONDS)


if __name__ == "__main__":
    main()
