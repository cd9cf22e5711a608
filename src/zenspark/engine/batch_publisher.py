"""How a record batch leaves this session: column by column, to its own subscribers and to every neighbour with one.

The batch is checked whole before anything is sent. Each distinct key is routed once; a neighbour that wants all keys
gets the columns as they are, one that wants some gets those rows. The thread that publishes writes the frames itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from zenspark.arrow.encode import QosRun, fill_timestamps, split_by_qos, to_wire_rows, validate_batch
from zenspark.engine.publisher import PublishSettings, encode_for, intercept_egress, publish_targets
from zenspark.engine.runtime import SessionRuntime
from zenspark.errors import RowError, UsageError
from zenspark.handlers.handler import DeliverySink
from zenspark.key import KeyExpr
from zenspark.net.io.driver import LinkDriver
from zenspark.router.face import Interceptor
from zenspark.types.enums import Locality
from zenspark.types.sample import Sample, sample_from_body
from zenspark.wire.columns import Rows
from zenspark.wire.values import WireExpr

BatchOrTable: TypeAlias = "pa.RecordBatch | pa.Table"
SettingsOverride: TypeAlias = Callable[[KeyExpr, PublishSettings], PublishSettings]
"""How a key is published, given how the others are."""


class TargetKeys(msgspec.Struct):
    """The keys somebody behind a link wants, how to say them there, and who decides what may be said."""

    guard: Interceptor | None
    exprs: dict[str, WireExpr] = msgspec.field(default_factory=dict)


class BatchSlice(msgspec.Struct):
    """Rows that are published with the same settings."""

    publishing: PublishSettings
    keys: list[str]
    runs: list[QosRun]


class BatchPublisher:
    """Publishes record batches, under one key or under the keys they bring; some keys may be treated by themselves."""

    def __init__(
        self,
        runtime: SessionRuntime,
        publishing: PublishSettings,
        key_expr: KeyExpr | None = None,
        treat: SettingsOverride | None = None,
    ) -> None:
        self._runtime = runtime
        self._publishing = publishing
        self._key_expr = key_expr
        self._treat = treat

    def put(self, batches: BatchOrTable) -> int:
        """Publish every row; how many deliveries to a neighbour were dropped because of congestion."""
        if not isinstance(batches, pa.RecordBatch | pa.Table):
            raise TypeError(f"expected a pyarrow.RecordBatch or Table, found {type(batches).__name__!r}")
        given = batches.to_batches() if isinstance(batches, pa.Table) else [batches]
        ready = [part for batch in given if batch.num_rows for part in self._prepared(batch)]
        return sum(self._publish(part, run) for part in ready for run in part.runs)

    def _prepared(self, batch: pa.RecordBatch) -> list[BatchSlice]:
        """What a batch brings: everything that may be refused is refused here."""
        zid = self._runtime.node.identity.zid
        exact = validate_batch(batch, zid)
        keys = self._keys(exact)
        stamps = self._publishing.stamps
        if self._runtime.stamps if stamps is None else stamps:
            exact = fill_timestamps(exact, zid, self._runtime.stamps_for)
        to_wire_rows(exact, WireExpr(0, keys[0]), encoding=self._publishing.encoding)
        treated = self._treated(keys)
        return [
            self._part(exact if len(treated) == 1 else _select_keys(exact, mine), publishing, mine)
            for publishing, mine in treated.items()
        ]

    def _treated(self, keys: list[str]) -> dict[PublishSettings, list[str]]:
        """The keys that are published alike."""
        if self._treat is None:
            return {self._publishing: keys}
        found: dict[PublishSettings, list[str]] = {}
        for key in keys:
            found.setdefault(self._treat(KeyExpr(key), self._publishing), []).append(key)
        return found

    def _part(self, batch: pa.RecordBatch, publishing: PublishSettings, keys: list[str]) -> BatchSlice:
        said = batch.select([name for name in batch.schema.names if name not in publishing.fixed])
        return BatchSlice(publishing, keys, list(split_by_qos(said, publishing.qos, publishing.reliable)))

    def _keys(self, batch: pa.RecordBatch) -> list[str]:
        if "key" not in batch.schema.names:
            if self._key_expr is None:
                raise UsageError("the batch needs a column 'key'")
            return [str(self._key_expr)]
        column = batch.column("key")
        found: list[str] = pc.unique(column).to_pylist()
        for key in found:
            self._check_key(key, column)
        return found

    def _check_key(self, key: str, column: pa.Array) -> None:
        try:
            if self._runtime.key(key) != self._key_expr and self._key_expr is not None:
                raise UsageError(f"this publisher publishes on {self._key_expr}")
        except UsageError as error:
            raise RowError(pc.index(column, key).as_py(), f"has the key {key!r}: {error}") from error

    def _publish(self, part: BatchSlice, run: QosRun) -> int:
        destination, keys = part.publishing.destination, part.keys
        if destination is not Locality.REMOTE:
            self._deliver_here(run, keys)
        if destination is Locality.SESSION_LOCAL:
            return 0
        return sum(self._send(run, driver, wanted, len(keys)) for driver, wanted in self._wanted(keys).items())

    def _wanted(self, keys: list[str]) -> dict[LinkDriver, TargetKeys]:
        """What is wanted behind each link."""
        found: dict[LinkDriver, TargetKeys] = {}
        with self._runtime.lock:
            for key in keys:
                for driver, expr, guard in publish_targets(self._runtime, key, self._key_expr is not None):
                    found.setdefault(driver, TargetKeys(guard)).exprs[key] = expr
        return found

    def _send(self, run: QosRun, driver: LinkDriver, wanted: TargetKeys, key_count: int) -> int:
        batch, exprs = run.batch, wanted.exprs
        if len(exprs) < key_count:
            batch = _select_keys(batch, list(exprs))
        expr = next(iter(exprs.values())) if len(exprs) == 1 else None
        if not batch.num_rows:
            return 0
        outward, qos = batch if expr is not None else self._outward(batch), run.qos.for_patch(driver.patch)
        rows = to_wire_rows(outward, expr, qos, self._publishing.encoding)
        if wanted.guard is not None:
            return self._send_each(rows, run.reliable, driver, wanted.guard)
        driver.publish_rows(rows, run.qos, run.reliable)
        return int(rows.count) - int(rows.row)

    def _send_each(self, rows: Rows, reliable: bool, driver: LinkDriver, guard: Interceptor) -> int:
        """Row by row, where somebody decides about each."""
        dropped = 0
        for row in range(rows.count):
            push = intercept_egress(self._runtime, guard, rows.push(row), reliable)
            if push is not None:
                dropped += not driver.put(encode_for(push, driver), None, push.qos, reliable)
        return dropped

    def _outward(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """A batch with its keys as others know them."""
        namespace = self._runtime.namespace
        if not namespace.is_used:
            return batch
        outward = pa.array([namespace.outward(key) for key in batch.column("key").to_pylist()])
        return batch.set_column(batch.schema.get_field_index("key"), "key", outward)

    def _deliver_here(self, run: QosRun, keys: list[str]) -> None:
        """To the subscribers of this very session, who get samples."""
        subscriptions = self._runtime.subscriptions
        full: list[DeliverySink[Sample]] = []
        with self._runtime.lock:
            if not any(subscriptions.route(key, True) for key in keys):
                return
            expr = WireExpr(0, keys[0]) if len(keys) == 1 else None
            rows = to_wire_rows(run.batch, expr, run.qos, self._publishing.encoding)
            key_exprs = {key: KeyExpr(key) for key in keys}
            for row in range(rows.count):
                push = rows.push(row)
                key_expr = key_exprs[push.wire_expr.suffix]
                full = subscriptions.deliver(sample_from_body(push.body, key_expr, run.qos, run.reliable), True)
        self._runtime.backpressure.wait(full)


def _select_keys(batch: pa.RecordBatch, keys: list[str]) -> pa.RecordBatch:
    """The rows with some keys."""
    return batch.filter(pc.is_in(batch.column("key"), pa.array(keys)))
