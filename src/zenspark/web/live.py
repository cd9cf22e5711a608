"""Live data of the page over a WebSocket, in batches: overview, changed keys, followed samples, the network.

A page selects feeds with `{"subscribe": {...}}`, at any time. A batch has the changes since the last one, so a page
that reads slowly gets fewer batches, not a longer queue; one that does not read at all is disconnected
(`connection.py`).
"""

from __future__ import annotations

import asyncio
import contextlib

import msgspec
from starlette.websockets import WebSocket, WebSocketDisconnect

from zenspark.arrow.decode import concat_chunks
from zenspark.errors import ZError
from zenspark.key import KeyExpr
from zenspark.web.chunk_queue import ChunkQueue
from zenspark.web.context import WebContext, check_access
from zenspark.web.events import check_stream_limit
from zenspark.web.http_clients import HttpClient
from zenspark.web.http_error import HttpError, as_http_error
from zenspark.web.key_monitor import UPDATE_INTERVAL_SECONDS, KeyMonitor
from zenspark.web.values import Document, iso, value_document

MAX_BATCH_KEY_ROWS = 5000
"""Rows of keys in one batch; the others follow in the next ones."""
MAX_BATCH_SAMPLES = 200
"""Followed samples in one batch; older ones are skipped."""
MAX_QUEUED_FOLLOWED_BYTES = 4 << 20
SAMPLE_COLUMNS = ["key", "kind", "timestamp", "received_at", "source_zid", "via", "payload", "encoding"]


class FeedSelection(msgspec.Struct, frozen=True):
    """The feeds that a page has selected."""

    overview: bool = False
    keys: str | None = None
    follow: str | None = None
    network: bool = False


class ClientMessage(msgspec.Struct, frozen=True):
    """A message of a page."""

    subscribe: FeedSelection = FeedSelection()


class KeysFeed:
    """The rows of keys that were not sent to one page yet."""

    def __init__(self, context: WebContext, key_expr: str, client: HttpClient) -> None:
        check_access(client, "declare_subscriber", key_expr)
        self._context = context
        self._client = client
        self._key_expr = key_expr
        self._monitor: KeyMonitor = context.monitors.acquire(key_expr)
        self._change = 0
        self._is_first = True

    def batch(self) -> bytes | None:
        """Return the changed rows as a message; None if nothing changed, or the monitor is not warm yet."""
        table = self._monitor.table
        if self._is_first and not self._monitor.is_warm:
            return None
        changed, self._change = table.changed_rows(self._change, MAX_BATCH_KEY_ROWS)
        if not changed and not self._is_first:
            return None
        self._is_first = False
        rows = [row for key, row in changed if self._client.may_read(key)]
        return b'{"keys":{"rows":[%s],"total":%d,"truncated":%s}}' % (
            b",".join(rows),
            len(table),
            b"true" if table.is_truncated else b"false",
        )

    def close(self) -> None:
        self._context.monitors.release(self._key_expr)


class FollowFeed:
    """The newest samples of a key expression, for one page."""

    def __init__(self, context: WebContext, key_expr: str, client: HttpClient) -> None:
        check_access(client, "declare_subscriber", key_expr)
        self._client = client
        self._queue = ChunkQueue(max_bytes=MAX_QUEUED_FOLLOWED_BYTES)
        self._subscriber = context.session.declare_subscriber(key_expr, self._queue)

    def batch(self) -> bytes | None:
        """Return the samples since the last batch as a message; None if there are none."""
        chunks, skipped = self._queue.take()
        if not chunks:
            return None
        rows = concat_chunks(chunks).select(SAMPLE_COLUMNS)
        skipped += max(rows.num_rows - MAX_BATCH_SAMPLES, 0)
        newest = rows.slice(max(rows.num_rows - MAX_BATCH_SAMPLES, 0)).to_pylist()
        samples = [sample_document(row) for row in newest if self._client.may_read(row["key"])]
        return msgspec.json.encode({"samples": samples, "skipped": skipped})

    def close(self) -> None:
        with contextlib.suppress(ZError):
            self._subscriber.undeclare()


def sample_document(row: dict[str, object]) -> Document:
    """Convert a row of the sample schema to the document of a followed sample."""
    payload = row["payload"] or b""
    assert isinstance(payload, bytes)
    return {
        "key": row["key"],
        "kind": row["kind"],
        "timestamp": iso(row["timestamp"]),  # type: ignore[arg-type]  # a datetime or None, by the schema
        "received_at": iso(row["received_at"]),  # type: ignore[arg-type]
        "source": row["source_zid"] or row["via"],
        "value": value_document(payload, str(row["encoding"])),
    }


class LivePage:
    """One connected page."""

    def __init__(self, context: WebContext, socket: WebSocket) -> None:
        self._context = context
        self._socket = socket
        self._client = context.client(socket)
        self._selected = FeedSelection()
        self._keys: KeysFeed | None = None
        self._follow: FollowFeed | None = None
        self._overview_at = -1.0
        self._network_version = -1

    async def run(self) -> None:
        """Serve the page until it disconnects."""
        reader = asyncio.create_task(self._read())
        try:
            while not reader.done() and not self._context.is_closing:
                await self._send_batches()
                await asyncio.wait([reader], timeout=UPDATE_INTERVAL_SECONDS)
        finally:
            reader.cancel()
            await self._context.run(self._close_feeds)

    def _close_feeds(self) -> None:
        for feed in (self._keys, self._follow):
            if feed is not None:
                feed.close()
        self._keys = self._follow = None
        if self._selected.network:
            self._context.network.release()

    # -- selection

    async def _read(self) -> None:
        with contextlib.suppress(WebSocketDisconnect):
            while True:
                text = await self._socket.receive_text()
                try:
                    selection = msgspec.json.decode(text, type=ClientMessage).subscribe
                    await self._context.run(self._change, selection)
                except (HttpError, ZError) as error:
                    await self._send({"error": str(as_http_error(error))})
                except msgspec.MsgspecError as error:
                    await self._send({"error": f"expected a JSON document with subscribe: {error}"})

    def _change(self, selection: FeedSelection) -> None:
        """Open and close feeds so that they are the selected ones; called in a worker thread."""
        before, self._selected = self._selected, msgspec.structs.replace(self._selected, overview=selection.overview)
        if selection.keys != before.keys:
            if self._keys is not None:
                self._keys.close()
            self._keys = None
            self._selected = msgspec.structs.replace(self._selected, keys=None)
            if selection.keys is not None:
                self._keys = KeysFeed(self._context, str(KeyExpr(selection.keys)), self._client)
                self._selected = msgspec.structs.replace(self._selected, keys=selection.keys)
        if selection.follow != before.follow:
            if self._follow is not None:
                self._follow.close()
            self._follow = None
            self._selected = msgspec.structs.replace(self._selected, follow=None)
            if selection.follow is not None:
                self._follow = FollowFeed(self._context, str(KeyExpr(selection.follow)), self._client)
                self._selected = msgspec.structs.replace(self._selected, follow=selection.follow)
        if selection.network != before.network:
            (self._context.network.acquire if selection.network else self._context.network.release)()
            self._network_version = -1
        self._selected = msgspec.structs.replace(self._selected, network=selection.network)

    # -- batches

    async def _send_batches(self) -> None:
        overview, network = self._context.overview, self._context.network
        if self._selected.overview and overview.samples and overview.samples[-1].t != self._overview_at:
            self._overview_at = overview.samples[-1].t
            problems = await self._context.run(overview.problems)
            await self._send({"overview": {**overview.current(), "problems": problems}})
        for feed in (self._keys, self._follow):
            if feed is not None and (batch := await self._context.run(feed.batch)) is not None:
                await self._send_encoded(batch)
        if self._selected.network and network.version != self._network_version:
            self._network_version = network.version
            await self._send_encoded(await self._context.run(network.message, self._client))

    async def _send(self, document: Document) -> None:
        await self._send_encoded(msgspec.json.encode(document))

    async def _send_encoded(self, encoded: bytes) -> None:
        with contextlib.suppress(WebSocketDisconnect, RuntimeError):  # it has disconnected; the reader ends
            await self._socket.send_text(encoded.decode())


class LiveApi:
    """Requests `/_api/live`."""

    def __init__(self, context: WebContext) -> None:
        self._context = context

    async def serve(self, socket: WebSocket) -> None:
        """Accept a WebSocket and serve it; the guard has checked origin and login."""
        try:
            check_stream_limit(self._context)
        except HttpError:
            await socket.close(1013)
            return
        await socket.accept()
        self._context.counts.sockets += 1
        try:
            await LivePage(self._context, socket).run()
        finally:
            self._context.counts.sockets -= 1
            with contextlib.suppress(RuntimeError, WebSocketDisconnect):
                await socket.close(1001)
