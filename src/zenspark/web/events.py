"""Server-sent events: publications as an event stream, as zenohd's REST plugin sends them.

One subscriber serves all streams of a key expression: an event is encoded once. Each client has a bounded queue; a
client that does not read as fast as events arrive is disconnected and counted (`slow_stream`), and no publisher ever
waits. If the server cannot encode events as fast as they arrive, all clients of the key expression are disconnected
(`server_overload`): a stream never misses events silently.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Iterable, Iterator
from http import HTTPStatus

from starlette.requests import Request
from starlette.types import Receive, Scope, Send

from zenspark.arrow.decode import RowChunk, concat_chunks
from zenspark.errors import ZError
from zenspark.key import KeyExpr
from zenspark.router.interceptors.rules import InterceptedAction
from zenspark.web import limits
from zenspark.web.chunk_queue import ChunkQueue
from zenspark.web.client_log import format_address
from zenspark.web.connection import TRANSPORT
from zenspark.web.context import WebContext, check_access
from zenspark.web.counts import DisconnectReason
from zenspark.web.documents import encode_json, row_document
from zenspark.web.http_clients import HttpClient
from zenspark.web.http_error import HttpError

logger = logging.getLogger("zenspark.web")

EVENT_STREAM_TYPE = "text/event-stream"
MIN_DRAIN_INTERVAL_SECONDS = 0.02
"""Seconds between two encodings of events under load: one write for many events costs less than one for each."""
MAX_WRITE_BYTES = 256 << 10
"""Bytes given to a connection at once."""


class StreamQueue:
    """The events that wait for one client; only used in the loop of the server."""

    def __init__(self, transport: asyncio.WriteTransport | None, context: WebContext, address: str) -> None:
        """`address` is that of the client, for the log."""
        self.address = address
        self._transport = transport
        self._context = context
        self._parts: deque[tuple[bytes, int]] = deque()
        self._bytes = self._events = 0
        self._ready = asyncio.Event()
        self.has_ended = False

    @property
    def waiting_bytes(self) -> int:
        """Bytes that wait for the client."""
        return self._bytes

    def push(self, parts: list[tuple[bytes, int]]) -> None:
        """Add encoded events, in parts; a client for which too many earlier ones wait is disconnected."""
        if self.has_ended:
            return
        if self._is_backlogged:
            self.disconnect("slow_stream")
            self._context.client_log.disconnect(self.address, "slow consumer of an event stream")
            return
        self._parts.extend(parts)
        size = sum(len(data) for data, _ in parts)
        self._bytes += size
        self._context.counts.stream_bytes += size
        self._events += sum(events for _, events in parts)
        self._ready.set()

    @property
    def _is_backlogged(self) -> bool:
        """Whether too many bytes or events wait for this client; fewer may if all clients together exceed a limit."""
        is_memory_short = self._context.counts.stream_bytes > limits.MAX_ALL_STREAM_BYTES
        max_bytes = MAX_WRITE_BYTES if is_memory_short else limits.MAX_STREAM_BYTES
        return self._bytes > max_bytes or self._events > limits.MAX_STREAM_EVENTS

    def disconnect(self, reason: DisconnectReason) -> None:
        """Disconnect the client, and count it by reason."""
        self._context.counts.disconnect(reason)
        self.discard()
        self.end()
        if self._transport is not None:
            self._transport.abort()

    def discard(self) -> None:
        """Discard the events that wait."""
        self._context.counts.stream_bytes -= self._bytes
        self._parts.clear()
        self._bytes = self._events = 0

    def end(self) -> None:
        """End the stream after the events that wait."""
        self.has_ended = True
        self._ready.set()

    async def take(self) -> bytes | None:
        """Wait for events; returns None at the end of the stream."""
        while not self._parts:
            if self.has_ended:
                return None
            self._ready.clear()
            await self._ready.wait()
        taken: list[bytes] = []
        size = 0
        while self._parts and (not taken or size + len(self._parts[0][0]) <= MAX_WRITE_BYTES):
            data, events = self._parts.popleft()
            taken.append(data)
            size += len(data)
            self._events -= events
        self._bytes -= size
        self._context.counts.stream_bytes -= size
        return b"".join(taken)


class EventHub:
    """The subscriber of one key expression and the streams it serves."""

    def __init__(self, context: WebContext, key: str, client: HttpClient) -> None:
        self._context = context
        self._key = key
        self._client = client
        self.streams: set[StreamQueue] = set()
        self._loop = asyncio.get_running_loop()
        self._drained_at = 0.0
        self._is_scheduled = False
        self._queue = ChunkQueue(self._wake)
        self._subscriber = context.session.declare_subscriber(key, self._queue)

    def close(self) -> None:
        """Undeclare the subscriber."""
        with contextlib.suppress(ZError):
            self._subscriber.undeclare()

    def _wake(self) -> None:
        """Schedule encoding; called by the thread that delivers."""
        with contextlib.suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self._schedule)

    def _schedule(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_at(max(self._loop.time(), self._drained_at + MIN_DRAIN_INTERVAL_SECONDS), self._drain)

    def _drain(self) -> None:
        self._is_scheduled = False
        chunks, skipped = self._queue.take()
        if skipped:  # more arrived than this server can encode: no stream may silently miss events
            self._disconnect_all(skipped)
        elif chunks and self.streams:
            parts = join_events(encode_events(chunks, self._client))
            for stream in list(self.streams):
                stream.push(parts)
        if self._queue.is_closed:
            for stream in self.streams:
                stream.end()
        self._drained_at = self._loop.time()

    def _disconnect_all(self, skipped: int) -> None:
        streams = [stream for stream in self.streams if not stream.has_ended]
        for stream in streams:
            stream.disconnect("server_overload")
        if streams:
            logger.warning(
                "disconnected %d HTTP clients of event streams on %s: this server is overloaded, dropped %d events",
                len(streams),
                self._key,
                skipped,
            )


def encode_events(chunks: list[RowChunk], client: HttpClient) -> Iterator[bytes]:
    """Encode rows as events, without those that access control keeps from the client."""
    columns = ["key", "kind", "payload", "encoding", "timestamp_ntp64", "timestamp_id"]
    batch = concat_chunks(chunks).select(columns)
    for row in zip(*(column.to_pylist() for column in batch.columns), strict=True):
        key, kind = row[:2]
        action: InterceptedAction = "put" if kind == "PUT" else "delete"
        if client.is_unrestricted or client.is_allowed("egress", action, key):
            yield b"event: %s\ndata: %s\n\n" % (kind.encode(), encode_json(row_document(*row)))


def join_events(events: Iterable[bytes]) -> list[tuple[bytes, int]]:
    """Join events to parts that are written at once, each with its number of events."""
    parts: list[tuple[bytes, int]] = []
    joined: list[bytes] = []
    size = 0
    for event in events:
        if joined and size + len(event) > MAX_WRITE_BYTES:
            parts.append((b"".join(joined), len(joined)))
            joined, size = [], 0
        joined.append(event)
        size += len(event)
    if joined:
        parts.append((b"".join(joined), len(joined)))
    return parts


class EventHubs:
    """The hubs of a server, by key expression and client attributes."""

    def __init__(self, context: WebContext) -> None:
        self._context = context
        self._hubs: dict[tuple[str, str], EventHub] = {}
        self._lock = asyncio.Lock()

    async def open(self, key: str, address: str, client: HttpClient, stream: StreamQueue) -> None:
        """Add a stream; the subscriber is declared when this returns."""
        async with self._lock:
            name = key, "" if client.is_unrestricted else address
            hub = self._hubs.get(name)
            if hub is None:
                hub = self._hubs[name] = EventHub(self._context, key, client)
            hub.streams.add(stream)
            self._context.counts.event_streams += 1

    def close(self, key: str, stream: StreamQueue) -> None:
        """Remove a stream, and its hub if it was the last."""
        for name, hub in list(self._hubs.items()):
            if name[0] == key and stream in hub.streams:
                hub.streams.discard(stream)
                stream.discard()
                self._context.counts.event_streams -= 1
                if not hub.streams:
                    del self._hubs[name]
                    hub.close()

    def end_all(self) -> None:
        """End all streams, because the server closes."""
        for hub in self._hubs.values():
            for stream in hub.streams:
                stream.end()


class EventStreamResponse:
    """The response to a request for events: it ends with the client, the server, or a client that does not read."""

    def __init__(self, context: WebContext, key: KeyExpr, request: Request, headers: dict[str, str]) -> None:
        self._context = context
        self._key = str(key)
        self._client = context.client(request)
        self._local_address = (request.scope.get("server") or ("", None))[0]
        self._headers = headers
        check_access(self._client, "declare_subscriber", self._key)
        check_stream_limit(context)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        stream = StreamQueue(scope["state"].get(TRANSPORT), self._context, format_address(scope.get("client")))
        await self._context.hubs.open(self._key, self._local_address, self._client, stream)
        reader = asyncio.create_task(_wait_for_disconnect(receive, stream))
        try:
            headers = {
                "Content-Type": EVENT_STREAM_TYPE,
                "Cache-Control": "no-cache",
                "Connection": "close",
                **self._headers,
            }
            encoded = [(name.lower().encode(), value.encode("latin-1")) for name, value in headers.items()]
            await send({"type": "http.response.start", "status": HTTPStatus.OK.value, "headers": encoded})
            await send({"type": "http.response.body", "body": b"", "more_body": True})
            while (data := await stream.take()) is not None:
                await send({"type": "http.response.body", "body": data, "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            reader.cancel()
            self._context.hubs.close(self._key, stream)


async def _wait_for_disconnect(receive: Receive, stream: StreamQueue) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    stream.end()


def check_stream_limit(context: WebContext) -> None:
    """Raise HttpError if there are too many streams."""
    if context.counts.event_streams + context.counts.sockets >= limits.MAX_STREAMS:
        context.counts.refuse("streams")
        raise HttpError(
            HTTPStatus.SERVICE_UNAVAILABLE, f"there are {limits.MAX_STREAMS} event streams and WebSockets already"
        )
