"""Root causes of error messages of Spark 4.3 (error_texts/; of long Java stacks only the first lines are kept)."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest
from py4j.protocol import Py4JError, Py4JNetworkError

from zenspark.errors import CorruptJournal, LakeError
from zenspark.lake.error_cause import MAX_CAUSE_CHARACTERS, error_cause, start_cause

TEXTS = Path(__file__).with_name("error_texts")
CORRUPT = (
    "/data/j-corrupt/00000000000000000000.segment: expected 31152 bytes with the checksum 1f02e5e3 at byte 155176; "
    "the rows from offset 2500 to 2999 cannot be read: restore the file from a copy, or read around it"
)


@pytest.mark.parametrize(
    ("name", "cause"),
    [
        ("stream_corrupt_journal", CORRUPT),
        ("py4j_corrupt_journal", CORRUPT),
        (
            "stream_data_loss",
            "/data/j-loss: offset 99999 is not there: the journal has the rows from 0 up to before 5000; "
            "with failOnDataLoss=false the query goes on without these rows",
        ),
        (
            "analysis_option",
            "there is no option maxoffsetspertriger for reading format zenoh: did you mean maxOffsetsPerTrigger?",
        ),
        ("stream_arrow_invalid", "ArrowInvalid: Cannot yet unify dictionaries with nulls"),
        ("stream_memory_error", "a Python worker of Spark has no memory left"),
        ("py4j_worker_killed", "a Python worker of Spark was killed or crashed; is there memory left?"),
        ("java_mkdir", "mkdir of file:/data/ro/lake/_checkpoint failed"),
    ],
)
def test_root_cause_of_spark_error_is_found(name: str, cause: str) -> None:
    assert error_cause(Exception((TEXTS / f"{name}.txt").read_text())) == cause


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        (LakeError("s3://b/lake", "http://127.0.0.1:9 refuses the credentials"), "s3://b/lake: http://127.0.0.1:9"),
        (CorruptJournal("/j/0.segment", 7, "a block"), "/j/0.segment: expected a block at byte 7"),
        (OSError(errno.ENOSPC, "No space left on device", "/lake/x"), "/lake/x: No space left on device"),
        (OSError(errno.EROFS, "Read-only file system"), "Read-only file system"),
        (
            OSError(errno.ENOSPC, "Error writing bytes to file. Detail: [errno 28] No space left on device"),
            "No space left on device",
        ),
        (
            LakeError(
                "/lake/samples", "[Errno 20] Failed to open local file '/lake/x'. Detail: [errno 20] Not a directory"
            ),
            "/lake/samples: Not a directory",
        ),
        (MemoryError(), "no memory left"),
        (Py4JNetworkError("Answer from Java side is empty"), "Spark's Java process has ended"),
        (Py4JError("An error occurred while calling o678.awaitTermination"), "Spark's Java process has ended"),
        (ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused"), "Spark's Java process has ended"),
        (Exception("java.lang.OutOfMemoryError: Java heap space"), "Spark's Java has no memory left: Java heap space"),
        (Exception("org.apache.spark.SparkException: Python worker failed to connect back."), "the machine is busy"),
        (Exception("x\nCaused by: java.io.IOException: disk quota exceeded\n\tat y"), "disk quota exceeded"),
        (Exception("x\nOSError: [Errno 30] Read-only file system: '/lake/a'"), "Read-only file system: '/lake/a'"),
        (ValueError(), "ValueError: no details"),
        (Exception("something\nelse"), "Exception: something else"),
    ],
)
def test_self_explanatory_error_is_unchanged(error: BaseException, cause: str) -> None:
    assert cause in error_cause(error)
    assert "\n" not in error_cause(error)


PUT = "Error performing PUT http://127.0.0.1:38605/b/lake/samples/_delta_log/00000000000000000012.json in 1.7s"
LIST = "Error performing GET http://127.0.0.1:38605/b?list-type=2&prefix=lake%2F_state%2Flatest%2F in 2.3s"
RETRIES = "after 10 retries, max_retries 10, retry_timeout 180s"
HEAD = "When getting information for key 'lake/x.parquet' in bucket 'b': AWS Error"


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (f"Generic S3 error: {PUT}, {RETRIES}  - HTTP error: error sending request", "cannot be reached"),
        (
            f"Generic S3 error Error performing list request {LIST}, {RETRIES} - HTTP error error sending request "
            "client error (Connect) tcp connect error Connection refused (os error 111)",
            "cannot be reached",
        ),
        (f"Kernel error -> Generic S3 error {PUT}, {RETRIES} - HTTP error error sending request", "cannot be reached"),
        (
            f"Generic S3 error: {PUT} - Server returned non-2xx status code: 403 Forbidden: <Code>AccessDenied</Code>",
            "refuses the credentials",
        ),
    ],
)
def test_unreachable_object_store_is_named(text: str, cause: str) -> None:
    """As obstore, deltalake and its Delta kernel wrote it when the endpoint was gone."""
    assert error_cause(LakeError("s3://b/lake", text)) == f"s3://b/lake: http://127.0.0.1:38605 {cause}"


def test_arrow_object_store_error_is_explained() -> None:
    gone = "NETWORK_CONNECTION during HeadObject operation: curlCode: 7, Could not connect to server; Details: Failed"
    unreachable = Exception(f"x\nOSError: {HEAD} {gone} to connect to 127.0.0.1:38605 after 0 ms: Could not connect")
    assert error_cause(unreachable) == "127.0.0.1:38605 cannot be reached"
    refused = Exception(f"x\nOSError: {HEAD} SIGNATURE_DOES_NOT_MATCH during HeadObject operation: no")
    assert error_cause(refused) == "the object store refuses the credentials"
    other = Exception(f"x\nOSError: {HEAD} SLOW_DOWN during HeadObject operation: later")
    assert error_cause(other) == f"{HEAD} SLOW_DOWN during HeadObject operation: later"


def test_cause_takes_precedence_over_its_wrapper() -> None:
    wrapper = RuntimeError("the query ended")
    wrapper.__cause__ = LakeError("lake", "its schema has version 3")
    assert error_cause(wrapper) == "lake: its schema has version 3"


def test_suppressed_context_is_ignored() -> None:
    error = RuntimeError("this one")
    error.__context__ = LakeError("lake", "of no importance")
    error.__suppress_context__ = True
    assert error_cause(error) == "RuntimeError: this one"


def test_cause_is_truncated_to_one_line() -> None:
    found = error_cause(LakeError("lake", "\x1b[31m↳\x1b[0m two\nlines " + "x" * 1000))
    assert found.startswith("lake: two lines xxx")
    assert len(found) == MAX_CAUSE_CHARACTERS


@pytest.mark.parametrize(
    ("log", "cause"),
    [
        (
            'Exception in thread "main" org.apache.spark.SparkException: Master must either be yarn or start with spark'
            "\n\tat org.apache.spark.deploy.SparkSubmit.error(SparkSubmit.scala:1)\n2026 ERROR landing has failed\n",
            "Master must either be yarn or start with spark",
        ),
        (
            "Error: Not allowed to specify max heap(Xmx) memory settings through java options\n\nUsage: spark-submit\n",
            "Not allowed to specify max heap(Xmx) memory settings through java options",
        ),
        (
            "23:41:12 ERROR StandaloneSchedulerBackend: Application has been killed. "
            "Reason: All masters are unresponsive! Giving up.\n",
            "All masters are unresponsive! Giving up.",
        ),
        ("23:41:12 ERROR Executor: something else\n", None),
    ],
)
def test_start_failure_is_found_in_java_log(log: str, cause: str | None) -> None:
    assert start_cause(log) == cause
