"""The root cause of a Spark failure, as one line.

Spark reports an error of a Python task as a Java exception that quotes a Python traceback that quotes another one. The
line an operator needs is the last one of the innermost traceback, or the last `Caused by:`. Where that line does not
explain the failure, as with a worker that was killed, a table of known failures has a better one.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator

from zenspark.errors import ZError

MAX_CAUSE_CHARACTERS = 240
"""A longer cause would push everything else off a status line."""

JAVA_ENDED = "Spark's Java process has ended"
KNOWN_FAILURES = (
    (r"Python worker exited unexpectedly", "a Python worker of Spark was killed or crashed; is there memory left?"),
    (
        r"Python worker (failed )?to connect back",
        "a Python worker of Spark did not start within Spark's 10 s: the machine is busy",
    ),
    (
        r"java\.lang\.OutOfMemoryError(: [\w ]+)?",
        "Spark's Java has no memory left{0}: give it more, --conf spark.driver.memory=4g",
    ),
    (
        r"All masters are unresponsive|Failed to connect to master|Invalid master URL: \S+",
        "the Spark master cannot be reached ({match})",
    ),
    (
        r"Could not parse Master URL: '?([^'\s]+)",
        "{0} is no master URL of Spark, such as local[*] or spark://host:7077",
    ),
    (r"ExecutorLostFailure \(executor \S+ exited (.*?)\)", "executors of Spark are lost: {0}"),
    (r"Java gateway process exited|JAVA_GATEWAY_EXITED", "Spark's Java process did not start: see its log"),
    (r"SparkContext was shut down|stopped SparkContext", JAVA_ENDED),
    (r"(?m)^MemoryError$", "a Python worker of Spark has no memory left"),
)
"""Failures whose own text does not explain them: the pattern that recognises each, and the text to show."""

_LINE = re.compile(r"^(?:Caused by: |: )?(?P<kind>(?:[A-Za-z_$][\w$]*\.)*[A-Z][\w$]*): (?P<text>\S.*)$", re.MULTILINE)
"""`package.Name: text`, as tracebacks of Python end and as Java names a cause."""
_CLASSES = re.compile(r"(Error|Exception|Journal|Locked|Full|OutOfRange|Invalid|Closed|Timeout|Exceeded|Extension)$")
_WRAPPERS = re.compile(r"^(pyspark\.|py4j\.|org\.apache\.spark\.(SparkException|api\.python|sql\.)|.*ForeachBatch)")
"""Exceptions that only wrap another one."""
_START_FAILURES = (
    re.compile(r'^Exception in thread "main" [\w.$]+: (?P<text>.+)$', re.MULTILINE),
    re.compile(r"^Error: (?P<text>.+)$", re.MULTILINE),
    re.compile(r"Application has been killed\. Reason: (?P<text>.+)$", re.MULTILINE),
)
"""Lines of Spark's Java process that report a failed start."""
_NOISE = re.compile(r"\x1b\[[0-9;]*m|↳|\s*SQLSTATE: \w+|^\[Errno \d+\] ")
_ARROW_DETAIL = re.compile(r"(?:\[Errno \d+\] )?[A-Z][^:]*?\.? Detail: \[errno \d+\] (?P<why>.*)$")
"""Arrow's format of an operating system error: the operation, then the reason."""

_OBJECT_STORE = (
    re.compile(
        r"(?:OSError: )?When [^']*'.*AWS Error (?P<code>\w+) .*?(?:Failed to connect to (?P<endpoint>\S+) .*)?$"
    ),  # Arrow
    re.compile(
        r"(?:Kernel error -> )?Generic S3 error.*? performing [A-Z]+ (?P<endpoint>https?://[^/?\s]+)\S* (?P<code>.*)$"
    ),  # obstore and deltalake
)
"""Error messages of libraries about requests to an object store."""
_UNREACHABLE = re.compile(r"NETWORK_CONNECTION|error sending request|Connection refused|timed out")
_REFUSED = re.compile(r"ACCESS_DENIED|SIGNATURE|ACCESS_KEY|TOKEN|EXPIRED|403 Forbidden|401 Unauthorized")


def error_cause(error: BaseException) -> str:
    """The cause of an error in one line, without a stack and without the names of exception classes."""
    chain = list(_error_chain(error))
    cause = (
        _first_text(_local_message(link) for link in chain)
        or _first_text(_match_known_failure(str(link)) for link in chain)
        or _innermost_exception(str(error))
        or (JAVA_ENDED if any(_is_lost_connection(link) for link in chain) else None)
    )
    return _shorten(cause or f"{type(error).__name__}: {str(error) or 'no details'}")


def start_cause(log: str) -> str | None:
    """The reason why Spark did not start, from the standard error of its Java process; None if it has none."""
    matches = [match for pattern in _START_FAILURES for match in pattern.finditer(log)]
    return _shorten(matches[-1]["text"]) if matches else None


def _first_text(texts: Iterable[str | None]) -> str | None:
    return next((text for text in texts if text), None)


def _error_chain(error: BaseException) -> Iterator[BaseException]:
    """Yield the error and the chain of its causes."""
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        yield current
        current = current.__cause__ or (None if current.__suppress_context__ else current.__context__)


def _local_message(error: BaseException) -> str | None:
    """The message of an error that was raised in this process and needs no explanation; otherwise None."""
    match error:
        case ZError():
            return str(error)
        case ConnectionError():
            return None  # that of py4j to Java
        case OSError(strerror=str(reason)):
            return f"{os.fspath(error.filename)!s}: {reason}" if error.filename else reason
        case MemoryError():
            return "no memory left"
    return None


def _is_lost_connection(error: BaseException) -> bool:
    """Whether py4j lost its connection to Java; errors raised by Java itself have a `java_exception`."""
    return isinstance(error, ConnectionError) or (
        type(error).__module__.startswith("py4j.") and not hasattr(error, "java_exception")
    )


def _match_known_failure(text: str) -> str | None:
    for pattern, sentence in KNOWN_FAILURES:
        match = re.search(pattern, text)
        if match is not None:
            group = match.groups()[0] if match.groups() else ""
            return sentence.format(group or "", match=match[0])
    return None


def _innermost_exception(text: str) -> str | None:
    """Return the text of the last exception quoted in a text; that of a wrapper only if there is no other."""
    matches = [match for match in _LINE.finditer(text) if _CLASSES.search(match["kind"])]
    causes = [match for match in matches if not _WRAPPERS.match(match["kind"])]
    if not causes:
        return matches[-1]["text"] if matches else None
    last = causes[-1]
    return last["text"] if last["kind"].startswith("zenspark.") else _prefix_class_name(last["kind"], last["text"])


def _prefix_class_name(kind: str, text: str) -> str:
    """Prefix a message with its exception class, unless the class adds no information."""
    name = kind.rpartition(".")[2]
    return text if name in ("OSError", "IOException", "RuntimeError", "Exception") else f"{name}: {text}"


def _shorten(text: str) -> str:
    line = _ARROW_DETAIL.sub(r"\g<why>", " ".join(_NOISE.sub(" ", text.strip()).split()))
    for pattern in _OBJECT_STORE:
        line = pattern.sub(_explain_object_store_error, line)
    return line if len(line) <= MAX_CAUSE_CHARACTERS else line[: MAX_CAUSE_CHARACTERS - 1] + "…"


def _explain_object_store_error(match: re.Match[str]) -> str:
    endpoint = match["endpoint"] or "the object store"
    if _UNREACHABLE.search(match["code"]):
        return f"{endpoint} cannot be reached"
    if _REFUSED.search(match["code"]):
        return f"{endpoint} refuses the credentials"
    return match[0]
