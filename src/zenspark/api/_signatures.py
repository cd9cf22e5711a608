"""Types that the signatures of several public methods share: kinds of handlers, and keyword arguments of overloads.

A method that takes a handler has one overload for each kind of handler, so that type checkers know what it returns:

========================================  ====================================================
handler                                   `declare_subscriber` returns
========================================  ====================================================
none, or a channel                        `Subscriber[Handler[Sample]]`
`ArrowBatches`                            `Subscriber[Handler[pyarrow.RecordBatch]]`
a pair of a callback and an object        `Subscriber[<type of the object>]`
a callback                                `Subscriber[None]`
========================================  ====================================================

Overloads of methods with many keyword arguments share a `TypedDict` of them; the method itself spells them out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypedDict, TypeVar

from zenspark.api.cancellation import CancellationToken
from zenspark.handlers.handler import Callback, DefaultHandler, FifoChannel, RingChannel
from zenspark.key import KeyExpr
from zenspark.types.encoding import Encoding
from zenspark.types.enums import (
    CongestionControl,
    ConsolidationMode,
    Locality,
    Priority,
    QueryConsolidation,
    QueryTarget,
    ReplyKeyExpr,
)
from zenspark.types.ids import SourceInfo
from zenspark.types.selector import IntoParameters
from zenspark.types.timestamp_stack import TimestampInstrumentation
from zenspark.types.timestamps import Timestamp
from zenspark.types.zbytes import IntoZBytes

T = TypeVar("T")
H = TypeVar("H")

IntoKeyExpr = KeyExpr | str
"""A key expression, or its text."""
IntoChannel = DefaultHandler[T] | FifoChannel[T] | RingChannel[T]
"""A channel that the caller receives items of type `T` from."""
IntoCallback = Callback[T] | Callable[[T], Any]
"""A function, or a `Callback`, that is called with items of type `T`; a lambda in a `Callback` gets its type too."""
IntoCallbackAndHandler = tuple[Callback[T] | Callable[[T], Any], H]
"""A callback, and an object of type `H` that the entity returns as its `handler`."""


class GetOptions(TypedDict, total=False):
    """Keyword arguments of `Session.get`."""

    target: QueryTarget | None
    consolidation: ConsolidationMode | QueryConsolidation | None
    accept_replies: ReplyKeyExpr | None
    timeout: float | None
    congestion_control: CongestionControl | None
    priority: Priority | None
    express: bool | None
    payload: IntoZBytes | None
    encoding: Encoding | str | None
    attachment: IntoZBytes | None
    allowed_destination: Locality | None
    source_info: SourceInfo | None
    cancellation_token: CancellationToken | None
    timestamp_instrumentation: TimestampInstrumentation | None
    budget: int | None
    timestamp: Timestamp | None


class QuerierGetOptions(TypedDict, total=False):
    """Keyword arguments of `Querier.get`."""

    parameters: IntoParameters | None
    payload: IntoZBytes | None
    encoding: Encoding | str | None
    attachment: IntoZBytes | None
    source_info: SourceInfo | None
    cancellation_token: CancellationToken | None
    timestamp_instrumentation: TimestampInstrumentation | None
    timestamp: Timestamp | None


class LivelinessGetOptions(TypedDict, total=False):
    """Keyword arguments of `Liveliness.get`."""

    timeout: float | None
    cancellation_token: CancellationToken | None
