"""zenspark speaks Zenoh and lands it in Spark. `import zenspark as zenoh` runs scripts written for eclipse-zenoh.

The names below are loaded when they are first used, so that importing the package costs nothing.
"""

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

from zenspark._pure import build_kind, choose_build

__version__ = "0.1.0"

choose_build(os.environ)

if TYPE_CHECKING:  # what type checkers and editors see; at run time the names are loaded when they are used
    from zenspark import aio as aio
    from zenspark import ext as ext
    from zenspark import handlers as handlers
    from zenspark import shm as shm
    from zenspark import zenoh as zenoh
    from zenspark.aliases import install_as_zenoh as install_as_zenoh
    from zenspark.api.batches import ArrowBatches as ArrowBatches
    from zenspark.api.cancellation import CancellationToken as CancellationToken
    from zenspark.api.config import Config as Config
    from zenspark.api.encoding import Encoding as Encoding
    from zenspark.api.entities import LivelinessToken as LivelinessToken
    from zenspark.api.entities import MatchingListener as MatchingListener
    from zenspark.api.entities import Publisher as Publisher
    from zenspark.api.entities import Querier as Querier
    from zenspark.api.entities import Queryable as Queryable
    from zenspark.api.entities import Subscriber as Subscriber
    from zenspark.api.enums import CongestionControl as CongestionControl
    from zenspark.api.enums import ConsolidationMode as ConsolidationMode
    from zenspark.api.enums import InterceptionPoint as InterceptionPoint
    from zenspark.api.enums import Locality as Locality
    from zenspark.api.enums import Priority as Priority
    from zenspark.api.enums import QueryConsolidation as QueryConsolidation
    from zenspark.api.enums import QueryTarget as QueryTarget
    from zenspark.api.enums import Reliability as Reliability
    from zenspark.api.enums import ReplyKeyExpr as ReplyKeyExpr
    from zenspark.api.enums import SampleKind as SampleKind
    from zenspark.api.enums import WhatAmI as WhatAmI
    from zenspark.api.enums import WhatAmIMatcher as WhatAmIMatcher
    from zenspark.api.handlers import Handler as Handler
    from zenspark.api.ids import EntityGlobalId as EntityGlobalId
    from zenspark.api.ids import SourceInfo as SourceInfo
    from zenspark.api.ids import ZenohId as ZenohId
    from zenspark.api.info import LinkEventsListener as LinkEventsListener
    from zenspark.api.info import SessionInfo as SessionInfo
    from zenspark.api.info import TransportEventsListener as TransportEventsListener
    from zenspark.api.instrumentation import TimestampContext as TimestampContext
    from zenspark.api.instrumentation import TimestampInstrumentation as TimestampInstrumentation
    from zenspark.api.instrumentation import TimestampInstrumentationBuilder as TimestampInstrumentationBuilder
    from zenspark.api.instrumentation import TimestampStack as TimestampStack
    from zenspark.api.instrumentation import TimestampStackRecord as TimestampStackRecord
    from zenspark.api.logs import init_log_from_env_or as init_log_from_env_or
    from zenspark.api.logs import try_init_log_from_env as try_init_log_from_env
    from zenspark.api.opening import open as open
    from zenspark.api.parameters import Parameters as Parameters
    from zenspark.api.parameters import Selector as Selector
    from zenspark.api.query import Query as Query
    from zenspark.api.sample import Reply as Reply
    from zenspark.api.sample import Sample as Sample
    from zenspark.api.scouting import Scout as Scout
    from zenspark.api.scouting import scout as scout
    from zenspark.api.session import Liveliness as Liveliness
    from zenspark.api.session import Session as Session
    from zenspark.api.timestamps import NTP64 as NTP64
    from zenspark.api.timestamps import Timestamp as Timestamp
    from zenspark.api.timestamps import TimestampId as TimestampId
    from zenspark.api.values import Hello as Hello
    from zenspark.api.values import Link as Link
    from zenspark.api.values import LinkCounters as LinkCounters
    from zenspark.api.values import LinkEvent as LinkEvent
    from zenspark.api.values import MatchingStatus as MatchingStatus
    from zenspark.api.values import ReplyError as ReplyError
    from zenspark.api.values import Transport as Transport
    from zenspark.api.values import TransportEvent as TransportEvent
    from zenspark.api.zbytes import ZBytes as ZBytes
    from zenspark.errors import ZError as ZError
    from zenspark.key import KeyExpr as KeyExpr
    from zenspark.key import SetIntersectionLevel as SetIntersectionLevel

_NAMES = {
    "aliases": "install_as_zenoh",
    "api.batches": "ArrowBatches",
    "api.cancellation": "CancellationToken",
    "api.config": "Config",
    "api.encoding": "Encoding",
    "api.entities": "LivelinessToken MatchingListener Publisher Querier Queryable Subscriber",
    "api.enums": (
        "CongestionControl ConsolidationMode InterceptionPoint Locality Priority QueryConsolidation QueryTarget "
        "Reliability ReplyKeyExpr SampleKind WhatAmI WhatAmIMatcher"
    ),
    "api.handlers": "Handler",
    "api.ids": "EntityGlobalId SourceInfo ZenohId",
    "api.info": "LinkEventsListener SessionInfo TransportEventsListener",
    "api.instrumentation": (
        "TimestampContext TimestampInstrumentation TimestampInstrumentationBuilder TimestampStack TimestampStackRecord"
    ),
    "api.logs": "init_log_from_env_or try_init_log_from_env",
    "api.opening": "open",
    "api.parameters": "Parameters Selector",
    "api.query": "Query",
    "api.sample": "Reply Sample",
    "api.scouting": "Scout scout",
    "api.session": "Liveliness Session",
    "api.timestamps": "NTP64 Timestamp TimestampId",
    "api.values": "Hello Link LinkCounters LinkEvent MatchingStatus ReplyError Transport TransportEvent",
    "api.zbytes": "ZBytes",
    "errors": "ZError",
    "key": "KeyExpr SetIntersectionLevel",
}
_MODULES = ("aio", "ext", "handlers", "shm", "zenoh")
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
