"""A Zenoh node in Python, and a pipeline from Zenoh to Spark.

`import zenspark as zenoh` runs scripts written for eclipse-zenoh. The names below are loaded when they are
first used, so that importing the package costs nothing.
"""

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

from zenspark._build import build_kind, choose_build

__version__ = "0.1.0"

choose_build(os.environ)

if TYPE_CHECKING:  # what type checkers and editors see; at run time the names are loaded when they are used
    from zenspark import aio as aio
    from zenspark import errors as errors
    from zenspark import ext as ext
    from zenspark import handlers as handlers
    from zenspark import shm as shm
    from zenspark import zenoh as zenoh
    from zenspark.aliases import install_as_zenoh as install_as_zenoh
    from zenspark.api._signatures import IntoCallback as IntoCallback
    from zenspark.api._signatures import IntoCallbackAndHandler as IntoCallbackAndHandler
    from zenspark.api._signatures import IntoChannel as IntoChannel
    from zenspark.api._signatures import IntoKeyExpr as IntoKeyExpr
    from zenspark.api.cancellation import CancellationToken as CancellationToken
    from zenspark.api.entities import LivelinessToken as LivelinessToken
    from zenspark.api.entities import MatchingListener as MatchingListener
    from zenspark.api.entities import Querier as Querier
    from zenspark.api.entities import Queryable as Queryable
    from zenspark.api.entities import Subscriber as Subscriber
    from zenspark.api.info import LinkEventsListener as LinkEventsListener
    from zenspark.api.info import NeighbourEventsListener as NeighbourEventsListener
    from zenspark.api.info import SessionInfo as SessionInfo
    from zenspark.api.info import TransportEventsListener as TransportEventsListener
    from zenspark.api.liveliness import Liveliness as Liveliness
    from zenspark.api.log_filter import init_log_from_env_or as init_log_from_env_or
    from zenspark.api.log_filter import try_init_log_from_env as try_init_log_from_env
    from zenspark.api.open import open as open
    from zenspark.api.publisher import Publisher as Publisher
    from zenspark.api.scouting import Scout as Scout
    from zenspark.api.scouting import scout as scout
    from zenspark.api.session import Session as Session
    from zenspark.config.config import Config as Config
    from zenspark.engine.batch_publisher import BatchOrTable as BatchOrTable
    from zenspark.engine.timestamping import TimestampCallback as TimestampCallback
    from zenspark.errors import ChannelClosed as ChannelClosed
    from zenspark.errors import LinkError as LinkError
    from zenspark.errors import ReceiveTimeout as ReceiveTimeout
    from zenspark.errors import SessionClosed as SessionClosed
    from zenspark.errors import UsageError as UsageError
    from zenspark.errors import ZError as ZError
    from zenspark.handlers.arrow import ArrowBatches as ArrowBatches
    from zenspark.handlers.handler import Handler as Handler
    from zenspark.key import KeyExpr as KeyExpr
    from zenspark.key import SetIntersectionLevel as SetIntersectionLevel
    from zenspark.types.encoding import Encoding as Encoding
    from zenspark.types.enums import CongestionControl as CongestionControl
    from zenspark.types.enums import ConsolidationMode as ConsolidationMode
    from zenspark.types.enums import InterceptionPoint as InterceptionPoint
    from zenspark.types.enums import Locality as Locality
    from zenspark.types.enums import Priority as Priority
    from zenspark.types.enums import QueryConsolidation as QueryConsolidation
    from zenspark.types.enums import QueryTarget as QueryTarget
    from zenspark.types.enums import Reliability as Reliability
    from zenspark.types.enums import ReplyKeyExpr as ReplyKeyExpr
    from zenspark.types.enums import SampleKind as SampleKind
    from zenspark.types.enums import WhatAmI as WhatAmI
    from zenspark.types.enums import WhatAmIMatcher as WhatAmIMatcher
    from zenspark.types.ids import EntityGlobalId as EntityGlobalId
    from zenspark.types.ids import SourceInfo as SourceInfo
    from zenspark.types.ids import ZenohId as ZenohId
    from zenspark.types.network_info import ConnectionStatus as ConnectionStatus
    from zenspark.types.network_info import Declaration as Declaration
    from zenspark.types.network_info import Hello as Hello
    from zenspark.types.network_info import Link as Link
    from zenspark.types.network_info import LinkCounters as LinkCounters
    from zenspark.types.network_info import LinkEvent as LinkEvent
    from zenspark.types.network_info import MatchingStatus as MatchingStatus
    from zenspark.types.network_info import NeighbourEvent as NeighbourEvent
    from zenspark.types.network_info import ReplyError as ReplyError
    from zenspark.types.network_info import Transport as Transport
    from zenspark.types.network_info import TransportEvent as TransportEvent
    from zenspark.types.query import Query as Query
    from zenspark.types.sample import Reply as Reply
    from zenspark.types.sample import Sample as Sample
    from zenspark.types.selector import IntoParameters as IntoParameters
    from zenspark.types.selector import Parameters as Parameters
    from zenspark.types.selector import Selector as Selector
    from zenspark.types.timestamp_stack import TimestampContext as TimestampContext
    from zenspark.types.timestamp_stack import TimestampInstrumentation as TimestampInstrumentation
    from zenspark.types.timestamp_stack import TimestampInstrumentationBuilder as TimestampInstrumentationBuilder
    from zenspark.types.timestamp_stack import TimestampStack as TimestampStack
    from zenspark.types.timestamp_stack import TimestampStackRecord as TimestampStackRecord
    from zenspark.types.timestamps import NTP64 as NTP64
    from zenspark.types.timestamps import Timestamp as Timestamp
    from zenspark.types.timestamps import TimestampId as TimestampId
    from zenspark.types.zbytes import IntoZBytes as IntoZBytes
    from zenspark.types.zbytes import ZBytes as ZBytes

_NAMES = {
    "aliases": "install_as_zenoh",
    "api._signatures": "IntoCallback IntoCallbackAndHandler IntoChannel IntoKeyExpr",
    "engine.batch_publisher": "BatchOrTable",
    "engine.timestamping": "TimestampCallback",
    "handlers.arrow": "ArrowBatches",
    "api.cancellation": "CancellationToken",
    "config.config": "Config",
    "types.encoding": "Encoding",
    "api.publisher": "Publisher",
    "api.entities": "LivelinessToken MatchingListener Querier Queryable Subscriber",
    "types.enums": (
        "CongestionControl ConsolidationMode InterceptionPoint Locality Priority QueryConsolidation QueryTarget "
        "Reliability ReplyKeyExpr SampleKind WhatAmI WhatAmIMatcher"
    ),
    "handlers.handler": "Handler",
    "types.ids": "EntityGlobalId SourceInfo ZenohId",
    "api.info": "LinkEventsListener NeighbourEventsListener SessionInfo TransportEventsListener",
    "types.timestamp_stack": (
        "TimestampContext TimestampInstrumentation TimestampInstrumentationBuilder TimestampStack TimestampStackRecord"
    ),
    "api.log_filter": "init_log_from_env_or try_init_log_from_env",
    "api.open": "open",
    "types.selector": "IntoParameters Parameters Selector",
    "types.query": "Query",
    "types.sample": "Reply Sample",
    "api.scouting": "Scout scout",
    "api.liveliness": "Liveliness",
    "api.session": "Session",
    "types.timestamps": "NTP64 Timestamp TimestampId",
    "types.network_info": (
        "ConnectionStatus Declaration Hello Link LinkCounters LinkEvent MatchingStatus NeighbourEvent ReplyError "
        "Transport TransportEvent"
    ),
    "types.zbytes": "IntoZBytes ZBytes",
    "errors": "ChannelClosed LinkError ReceiveTimeout SessionClosed UsageError ZError",
    "key": "KeyExpr SetIntersectionLevel",
}
_MODULES = ("aio", "errors", "ext", "handlers", "shm", "zenoh")
_HOME = {name: module for module, names in _NAMES.items() for name in names.split()}

__all__ = ["__version__", "build_kind", *_HOME, *_MODULES]


if not TYPE_CHECKING:  # to a type checker a name that is not above does not exist

    def __getattr__(name: str) -> Any:  # noqa: ANN401 - any public name
        if name in _MODULES:
            found: Any = import_module(f"zenspark.{name}")
        elif name in _HOME:
            found = getattr(import_module(f"zenspark.{_HOME[name]}"), name)
        else:
            raise AttributeError(f"module 'zenspark' has no attribute {name!r}")
        globals()[name] = found
        return found


def __dir__() -> list[str]:
    return sorted(__all__)
