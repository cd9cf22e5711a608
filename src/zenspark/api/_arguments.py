"""Values of the wire and settings of the engine, made from the arguments of public methods."""

from __future__ import annotations

from zenspark.engine.direct_queries import QueryRequest
from zenspark.engine.publisher import PublishSettings
from zenspark.engine.runtime import SessionRuntime
from zenspark.errors import UsageError
from zenspark.types.arguments import require_type, require_type_or_default, to_bool, to_count
from zenspark.types.encoding import Encoding
from zenspark.types.enums import (
    CongestionControl,
    ConsolidationMode,
    Locality,
    Priority,
    QueryConsolidation,
    QueryTarget,
    Reliability,
    ReplyKeyExpr,
)
from zenspark.types.ids import SourceInfo
from zenspark.types.query import ANY_KEY_PARAMETER
from zenspark.types.selector import Parameters, Selector
from zenspark.types.timestamp_stack import TimestampInstrumentation
from zenspark.types.timestamps import Timestamp
from zenspark.types.zbytes import IntoZBytes, ZBytes
from zenspark.wire import messages
from zenspark.wire import values as wire

MAX_PARAMETERS_BYTES = 0xFFFF
"""Most bytes of the parameters of a query: their length has 16 bits. Longer ones of other nodes are decoded."""


def make_query_request(
    runtime: SessionRuntime,
    selector: Selector,
    *,
    timeout: float,
    target: QueryTarget | None,
    consolidation: ConsolidationMode | QueryConsolidation | None,
    accept_replies: ReplyKeyExpr | None,
    congestion_control: CongestionControl | None,
    priority: Priority | None,
    express: bool | None,
    allowed_destination: Locality | None,
    budget: int | None = None,
    timestamp: Timestamp | None = None,
    payload: IntoZBytes | None = None,
    encoding: Encoding | str | None = None,
    attachment: IntoZBytes | None = None,
    source_info: SourceInfo | None = None,
    timestamp_instrumentation: TimestampInstrumentation | None = None,
) -> QueryRequest:
    """Make a query request from the arguments of `get`."""
    parameters = selector.parameters
    chosen = _consolidation_mode(consolidation)
    any_key = (
        require_type_or_default(ReplyKeyExpr, accept_replies, ReplyKeyExpr.DEFAULT) is ReplyKeyExpr.ANY
        or ANY_KEY_PARAMETER in parameters
    )
    if any_key and ANY_KEY_PARAMETER not in parameters:
        parameters.insert(ANY_KEY_PARAMETER, "")
    query = messages.Query(
        consolidation=chosen.to_wire(),
        parameters=_validate_parameters(str(parameters)),
        source_info=None if source_info is None else require_type(SourceInfo, source_info).to_wire(),
        body=_make_query_body(payload, encoding),
        attachment=None if attachment is None else ZBytes.of(attachment).to_bytes(),
    )
    return QueryRequest(
        key_expr=selector.key_expr,
        body=query,
        target=require_type_or_default(QueryTarget, target, QueryTarget.DEFAULT).to_wire(),
        qos=make_qos(congestion_control or CongestionControl.BLOCK, priority, express),
        timeout=timeout,
        mode=_resolve_consolidation(chosen, parameters),
        any_key=any_key,
        destination=require_type_or_default(Locality, allowed_destination, Locality.ANY),
        budget=to_count(budget),
        timestamp=None if timestamp is None else require_type(Timestamp, timestamp).to_wire(),
        stack=runtime.timestamps.start_stack(timestamp_instrumentation),
    )


def _validate_parameters(parameters: str) -> str:
    """Return parameters, if their length can be encoded in 16 bits."""
    size = len(parameters.encode())
    if size > MAX_PARAMETERS_BYTES:
        raise UsageError(f"the parameters of a query have {size} bytes, more than {MAX_PARAMETERS_BYTES}")
    return parameters


def _make_query_body(payload: IntoZBytes | None, encoding: Encoding | str | None) -> wire.QueryBody | None:
    if payload is None and encoding is None:
        return None
    encoded = wire.Encoding.BYTES if encoding is None else Encoding.of(encoding).to_wire()
    return wire.QueryBody(encoded, b"" if payload is None else ZBytes.of(payload).to_bytes())


def make_qos(congestion: CongestionControl | None, priority: Priority | None, express: bool | None) -> wire.QoS:
    return wire.QoS(
        require_type_or_default(Priority, priority, Priority.DEFAULT).to_wire(),
        require_type_or_default(CongestionControl, congestion, CongestionControl.DEFAULT).to_wire(),
        to_bool(express),
    )


def make_publish_settings(
    encoding: Encoding | str | None,
    congestion: CongestionControl | None,
    priority: Priority | None,
    express: bool | None,
    reliability: Reliability | None,
    destination: Locality | None,
) -> PublishSettings:
    return PublishSettings(
        wire.Encoding.BYTES if encoding is None else Encoding.of(encoding).to_wire(),
        make_qos(congestion, priority, express),
        require_type_or_default(Reliability, reliability, Reliability.RELIABLE) is Reliability.RELIABLE,
        require_type_or_default(Locality, destination, Locality.ANY),
    )


def _consolidation_mode(consolidation: ConsolidationMode | QueryConsolidation | None) -> ConsolidationMode:
    chosen = consolidation.mode if isinstance(consolidation, QueryConsolidation) else consolidation
    return require_type_or_default(ConsolidationMode, chosen, ConsolidationMode.AUTO)


def _resolve_consolidation(mode: ConsolidationMode, parameters: Parameters) -> ConsolidationMode:
    """Return the mode that AUTO stands for, for replies without a preference."""
    if mode is ConsolidationMode.AUTO:
        return ConsolidationMode.NONE if "_time" in parameters else ConsolidationMode.LATEST
    return mode
