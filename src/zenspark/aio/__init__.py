"""The session API for asyncio: the names and arguments of `zenspark`, to be awaited.

Values (`Sample`, `KeyExpr`, `Config`, …) and handlers (`FifoChannel`, `ArrowBatches`, …) are those of
`zenspark` itself.
"""

from zenspark.aio.awaitable import Pending
from zenspark.aio.channels import Channel
from zenspark.aio.entities import LivelinessToken, MatchingListener, Publisher, Querier, Queryable, Subscriber
from zenspark.aio.info import LinkEventsListener, NeighbourEventsListener, SessionInfo, TransportEventsListener
from zenspark.aio.liveliness import Liveliness
from zenspark.aio.query import Query
from zenspark.aio.replies import Replies
from zenspark.aio.scouting import Scout, scout
from zenspark.aio.session import Session, open

__all__ = [
    "Channel",
    "LinkEventsListener",
    "Liveliness",
    "LivelinessToken",
    "MatchingListener",
    "NeighbourEventsListener",
    "Pending",
    "Publisher",
    "Querier",
    "Query",
    "Queryable",
    "Replies",
    "Scout",
    "Session",
    "SessionInfo",
    "Subscriber",
    "TransportEventsListener",
    "open",
    "scout",
]
