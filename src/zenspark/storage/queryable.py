"""Storage: a queryable that replies with the latest values from memory, and with history from journals and the lake.

Without parameters a query gets the latest value of each key that matches. With `_time` it gets every sample of that
range as it was published, deletions included, at most the `_limit` newest of each key; with the default consolidation a
querier keeps all of them. Samples are available as soon as they are acknowledged in a journal.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Self

from zenspark.api.entities import Queryable
from zenspark.api.session import Session
from zenspark.errors import UsageError, ZError
from zenspark.journal import Journal
from zenspark.key import KeyExpr
from zenspark.log_throttle import LogThrottle
from zenspark.storage.history import History, HistoryQuery
from zenspark.storage.inputs import LakeTables, StorageInputs
from zenspark.storage.journal_tailer import JournalTailer
from zenspark.storage.key_scope import KeyScope
from zenspark.storage.latest_store import DEFAULT_LIFESPAN_SECONDS, LatestValueStore
from zenspark.types.arguments import parse_decimal
from zenspark.types.ids import format_source
from zenspark.types.query import Query, reply_stored
from zenspark.types.time_range import TimeRange, time_parameter

logger = logging.getLogger("zenspark.storage")

Path = str | os.PathLike[str]

MAX_INLINE_REPLIES = 1000
"""Queries with more replies run in the thread pool, so that queries for one key do not wait for them."""
MAX_REPLY_THREADS = 4


class Storage:
    """Queryables that reply with the latest values and the history of some keys, from `start` until `close`.

    Args:
        session: The session of the queryables.
        key_expr: Key expression of the keys to reply for, or several.
        lake: The lake with the history; none by default.
        journals: Journals whose rows are ingested there, or their paths.
        complete: Whether the queryables are complete: queries with target BEST_MATCHING then reach only the nearest.
        strip_prefix: Prefix of the keys that the stored keys do not have; none by default.
        lifespan: Seconds for which tombstones and wildcard updates are kept; a day by default, as in zenohd.

    Raises:
        UsageError: A key expression is not valid, or `strip_prefix` is no prefix of it.

    Example:
        >>> with Storage(session, "demo/**", Lake("lake"), ["journal"]) as storage:
        ...     storage.caught_up()
        True
    """

    def __init__(
        self,
        session: Session,
        key_expr: str | Sequence[str],
        lake: LakeTables | None = None,
        journals: Sequence[Journal | Path] = (),
        *,
        complete: bool = False,
        strip_prefix: str | None = None,
        lifespan: float = DEFAULT_LIFESPAN_SECONDS,
    ) -> None:
        key_exprs = [key_expr] if isinstance(key_expr, str) else key_expr
        opened = [journal if isinstance(journal, Journal) else Journal(journal) for journal in journals]
        self.scope = KeyScope(key_exprs, strip_prefix)
        self.complete = complete
        self.latest = LatestValueStore(lifespan)
        self._session = session
        inputs = StorageInputs(lake, opened)
        self._tailer = JournalTailer(self.latest, self.scope, inputs)
        self._history = History(self.scope, inputs)
        self._pool = ThreadPoolExecutor(MAX_REPLY_THREADS, thread_name_prefix="zenspark-storage")
        self._queryables: list[Queryable[Any]] = []
        self._throttle = LogThrottle()
        self._log_lock = threading.Lock()
        """Held while the throttle counts: queries fail in several threads."""

    def start(self) -> Self:
        """Load all values, declare the queryables, and tail the journals.

        Returns:
            The storage.

        Raises:
            LakeError: The lake cannot be read.
            JournalError: A journal cannot be read.
            SessionClosed: The session was closed.

        Example:
            >>> storage = Storage(session, "demo/**", Lake("lake"), ["journal"]).start()
        """
        self._tailer.start()
        for key_expr_index, key_expr in enumerate(self.scope.key_exprs):
            handler = partial(self._on_query, key_expr_index)
            self._queryables.append(self._session.declare_queryable(key_expr, handler, complete=self.complete))
        return self

    def close(self) -> None:
        """Undeclare the queryables; queries in progress are completed.

        Example:
            >>> storage.close()
        """
        for queryable in self._queryables:
            if not self._session.is_closed():
                queryable.undeclare()
        self._queryables = []
        self._pool.shutdown(wait=True)
        self._tailer.stop()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    def caught_up(self, timeout: float = 10.0) -> bool:
        """Wait until all samples acknowledged so far are available.

        Args:
            timeout: Seconds to wait.

        Returns:
            True if they are, False on timeout.

        Example:
            >>> is_up_to_date = storage.caught_up(timeout=1)
        """
        return self._tailer.wait(timeout)

    def status(self) -> dict[str, Any]:
        """Status document: key expressions, number of keys, and applied offsets by recorder.

        Returns:
            The document, as the page shows it.

        Example:
            >>> keys = storage.status()["keys"]
        """
        status: dict[str, Any] = {
            "key_expr": self.scope.key_exprs[0] if len(self.scope.key_exprs) == 1 else self.scope.key_exprs,
            "complete": self.complete,
            "keys": len(self.latest),
            "offsets": self._tailer.offsets,
        }
        return status if self.scope.strip_prefix is None else status | {"strip_prefix": self.scope.strip_prefix}

    # -- queries

    def _on_query(self, key_expr_index: int, query: Query) -> None:
        """Reply to a query, in this thread if there are few replies."""
        key = str(query.key_expr)
        parameters = query.parameters
        if parameters and "_time" in parameters:
            self._pool.submit(self._reply_history, key_expr_index, query)
        elif "*" not in key:
            self._reply_latest(query, [key] if self.scope.owns(key_expr_index, key) else [])
        else:
            keys = [key for key in self.latest.matching_keys(key) if self.scope.owns(key_expr_index, key)]
            if len(keys) <= MAX_INLINE_REPLIES:
                self._reply_latest(query, keys)
            else:
                self._pool.submit(self._reply_latest, query, keys)

    def _reply_latest(self, query: Query, keys: list[str]) -> None:
        with query:
            for key in keys:
                put = self.latest.find(key)
                if put is not None:
                    reply_stored(query, KeyExpr(key), put)

    def _reply_history(self, key_expr_index: int, query: Query) -> None:
        with query:
            try:
                for key, body in self._history.samples(_parse_history_query(query), key_expr_index):
                    reply_stored(query, KeyExpr(key), body)
            except ZError as error:
                query.reply_err(str(error))
            except Exception:
                self._log_failure(query)
                query.reply_err("the history cannot be read")

    def _log_failure(self, query: Query) -> None:
        """Log the exception of a query with its stack, unless one was logged lately: any node can cause it."""
        with self._log_lock:
            total = self._throttle.count("query")
        if total is not None:
            source = format_source(query.source_info)
            text = "storage of %s: query %s from %s failed; %d in all"
            logger.exception(text, self.scope, query.selector, source, total)


def _parse_history_query(query: Query) -> HistoryQuery:
    text = query.parameters.get("_limit")
    limit = None if text is None else parse_decimal(text)
    if text is not None and not limit:
        raise UsageError(f"_limit: expected a number greater than 0, found {text!r}")
    times = TimeRange.parse(time_parameter(query.parameters) or "", time.time())
    return HistoryQuery(str(query.key_expr), times, limit)
