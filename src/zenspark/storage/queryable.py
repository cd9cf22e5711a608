"""Storage: a queryable that answers from memory what is newest, and from tables what was.

Without parameters a query gets the newest value of each key that matches. With `_time` it gets every sample of that
range as it was published, deletions too, at most the `_limit` newest of each key; queriers that leave the consolidation
to Zenoh keep all of these. Samples are answered as soon as they are acknowledged in a journal.
"""

from __future__ import annotations

import logging
import os
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
from zenspark.storage.history import History, HistoryQuery
from zenspark.storage.inputs import LakeTables, StorageInputs
from zenspark.storage.journal_tailer import JournalTailer
from zenspark.storage.key_scope import KeyScope
from zenspark.storage.latest_store import DEFAULT_LIFESPAN_SECONDS, LatestValueStore
from zenspark.types.arguments import parse_decimal
from zenspark.types.query import Query, reply_stored
from zenspark.types.time_range import TimeRange

logger = logging.getLogger("zenspark.spark")

Path = str | os.PathLike[str]

MAX_INLINE_REPLIES = 1000
"""More keys than this are answered in a thread of their own: who asks for one key does not wait for them."""
REPLY_THREADS = 4


class Storage:
    """Answers queries on some keys; `start` fills it and declares it, `close` ends it.

    `lake` is a Lake or None, `journals` are the journals whose rows land there, or their paths.
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
        self.newest = LatestValueStore(lifespan)
        self._session = session
        sources = StorageInputs(lake, opened)
        self._tailer = JournalTailer(self.newest, self.scope, sources)
        self._history = History(self.scope, sources)
        self._pool = ThreadPoolExecutor(REPLY_THREADS, thread_name_prefix="zenspark-storage")
        self._queryables: list[Queryable[Any]] = []

    def start(self) -> Self:
        """Take in what there is, answer from then on, and keep up with the journals."""
        self._tailer.start()
        for owner, key_expr in enumerate(self.scope.key_exprs):
            handler = partial(self._on_query, owner)
            self._queryables.append(self._session.declare_queryable(key_expr, handler, complete=self.complete))
        return self

    def close(self) -> None:
        """Answer no more; what is being answered is finished."""
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
        """Wait until everything that is acknowledged now has been taken in; whether it was in time."""
        return self._tailer.wait(timeout)

    def status(self) -> dict[str, Any]:
        """What it answers for, and from how many keys."""
        status: dict[str, Any] = {
            "key_expr": self.scope.key_exprs[0] if len(self.scope.key_exprs) == 1 else self.scope.key_exprs,
            "complete": self.complete,
            "keys": len(self.newest),
            "offsets": self._tailer.offsets,
        }
        return status if self.scope.strip_prefix is None else status | {"strip_prefix": self.scope.strip_prefix}

    # -- queries

    def _on_query(self, owner: int, query: Query) -> None:
        """Answer a query, here if that is quick."""
        key = str(query.key_expr)
        parameters = query.parameters
        if parameters and "_time" in parameters:
            self._pool.submit(self._answer_past, owner, query)
        elif "*" not in key:
            self._answer_newest(query, [key] if self.scope.owns(owner, key) else [])
        else:
            keys = [key for key in self.newest.matching_keys(key) if self.scope.owns(owner, key)]
            if len(keys) <= MAX_INLINE_REPLIES:
                self._answer_newest(query, keys)
            else:
                self._pool.submit(self._answer_newest, query, keys)

    def _answer_newest(self, query: Query, keys: list[str]) -> None:
        with query:
            for key in keys:
                put = self.newest.find(key)
                if put is not None:
                    reply_stored(query, KeyExpr(key), put)

    def _answer_past(self, owner: int, query: Query) -> None:
        with query:
            try:
                for key, body in self._history.samples(_parse_history_query(query), owner):
                    reply_stored(query, KeyExpr(key), body)
            except ZError as error:
                query.reply_err(str(error))
            except Exception:
                logger.exception("%s cannot be answered", query.selector)
                query.reply_err("the past cannot be read")


def _parse_history_query(query: Query) -> HistoryQuery:
    text = query.parameters.get("_limit")
    limit = None if text is None else parse_decimal(text)
    if text is not None and not limit:
        raise UsageError(f"_limit: expected a number greater than 0, found {text!r}")
    times = TimeRange.parse(query.parameters.get("_time") or "", time.time())
    return HistoryQuery(str(query.key_expr), times, limit)
