"""zenspark speaks Zenoh and lands it in Spark. `import zenspark as zenoh` runs scripts written for eclipse-zenoh.

The names below are loaded when they are first used, so that importing the package costs nothing.
"""

import os
from importlib import import_module
from typing import Any

from zenspark._pure import build_kind, choose_build

__version__ = "0.1.0"

choose_build(os.environ)

_NAMES = {
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
    "api.values": "Hello Link LinkEvent MatchingStatus ReplyError Transport TransportEvent",
    "api.zbytes": "ZBytes",
    "errors": "ZError",
    "key": "KeyExpr SetIntersectionLevel",
}
_MODULES = ("aio", "ext", "handlers", "shm")
_HOME = {name: module for module, names in _NAMES.items() for name in names.split()}

__all__ = ["__version__", "build_kind", *_HOME, *_MODULES]


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
