"""`zenspark.zenoh`: the names of eclipse-zenoh's native module, `zenoh.zenoh`, which some programs import from."""

from typing import TYPE_CHECKING, Any

import zenspark

if TYPE_CHECKING:  # what type checkers and editors see, as in zenspark itself
    from zenspark import NTP64 as NTP64
    from zenspark import ArrowBatches as ArrowBatches
    from zenspark import BatchOrTable as BatchOrTable
    from zenspark import CancellationToken as CancellationToken
    from zenspark import ChannelClosed as ChannelClosed
    from zenspark import Config as Config
    from zenspark import CongestionControl as CongestionControl
    from zenspark import ConnectionStatus as ConnectionStatus
    from zenspark import ConsolidationMode as ConsolidationMode
    from zenspark import Declaration as Declaration
    from zenspark import Encoding as Encoding
    from zenspark import EntityGlobalId as EntityGlobalId
    from zenspark import Handler as Handler
    from zenspark import Hello as Hello
    from zenspark import InterceptionPoint as InterceptionPoint
    from zenspark import IntoCallback as IntoCallback
    from zenspark import IntoCallbackAndHandler as IntoCallbackAndHandler
    from zenspark import IntoChannel as IntoChannel
    from zenspark import IntoKeyExpr as IntoKeyExpr
    from zenspark import IntoParameters as IntoParameters
    from zenspark import IntoZBytes as IntoZBytes
    from zenspark import KeyExpr as KeyExpr
    from zenspark import Link as Link
    from zenspark import LinkCounters as LinkCounters
    from zenspark import LinkError as LinkError
    from zenspark import LinkEvent as LinkEvent
    from zenspark import LinkEventsListener as LinkEventsListener
    from zenspark import Liveliness as Liveliness
    from zenspark import LivelinessToken as LivelinessToken
    from zenspark import Locality as Locality
    from zenspark import MatchingListener as MatchingListener
    from zenspark import MatchingStatus as MatchingStatus
    from zenspark import NeighbourEvent as NeighbourEvent
    from zenspark import NeighbourEventsListener as NeighbourEventsListener
    from zenspark import Parameters as Parameters
    from zenspark import Priority as Priority
    from zenspark import Publisher as Publisher
    from zenspark import Querier as Querier
    from zenspark import Query as Query
    from zenspark import Queryable as Queryable
    from zenspark import QueryConsolidation as QueryConsolidation
    from zenspark import QueryTarget as QueryTarget
    from zenspark import ReceiveTimeout as ReceiveTimeout
    from zenspark import Reliability as Reliability
    from zenspark import Reply as Reply
    from zenspark import ReplyError as ReplyError
    from zenspark import ReplyKeyExpr as ReplyKeyExpr
    from zenspark import Sample as Sample
    from zenspark import SampleKind as SampleKind
    from zenspark import Scout as Scout
    from zenspark import Selector as Selector
    from zenspark import Session as Session
    from zenspark import SessionClosed as SessionClosed
    from zenspark import SessionInfo as SessionInfo
    from zenspark import SetIntersectionLevel as SetIntersectionLevel
    from zenspark import SourceInfo as SourceInfo
    from zenspark import Subscriber as Subscriber
    from zenspark import Timestamp as Timestamp
    from zenspark import TimestampCallback as TimestampCallback
    from zenspark import TimestampContext as TimestampContext
    from zenspark import TimestampId as TimestampId
    from zenspark import TimestampInstrumentation as TimestampInstrumentation
    from zenspark import TimestampInstrumentationBuilder as TimestampInstrumentationBuilder
    from zenspark import TimestampStack as TimestampStack
    from zenspark import TimestampStackRecord as TimestampStackRecord
    from zenspark import Transport as Transport
    from zenspark import TransportEvent as TransportEvent
    from zenspark import TransportEventsListener as TransportEventsListener
    from zenspark import UsageError as UsageError
    from zenspark import WhatAmI as WhatAmI
    from zenspark import WhatAmIMatcher as WhatAmIMatcher
    from zenspark import ZBytes as ZBytes
    from zenspark import ZenohId as ZenohId
    from zenspark import ZError as ZError
    from zenspark import aio as aio
    from zenspark import build_kind as build_kind
    from zenspark import errors as errors
    from zenspark import ext as ext
    from zenspark import handlers as handlers
    from zenspark import init_log_from_env_or as init_log_from_env_or
    from zenspark import install_as_zenoh as install_as_zenoh
    from zenspark import open as open
    from zenspark import scout as scout
    from zenspark import shm as shm
    from zenspark import try_init_log_from_env as try_init_log_from_env

__all__ = [name for name in zenspark.__all__ if not name.startswith("_")]


if not TYPE_CHECKING:  # to a type checker a name that is not above does not exist

    def __getattr__(name: str) -> Any:  # noqa: ANN401 - any public name
        if name not in __all__:
            raise AttributeError(f"module 'zenspark.zenoh' has no attribute {name!r}")
        return getattr(zenspark, name)
