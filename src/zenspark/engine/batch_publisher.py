"""BatchPublisher: publishes record batches column by column, to the subscribers of this session and to neighbours.

A batch is validated whole before anything is sent. Each distinct key is routed once; a neighbour that is a target of
all keys gets the columns as they are, one that is a target of some gets those rows. The publishing thread writes the
frames itself.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
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
from zenspark.net.io.link_driver import LinkDriver
from zenspark.router.face import Interceptor
from zenspark.types.enums import Locality
from zenspark.types.sample import Sample, sample_from_body
from zenspark.wire.columns import OutgoingRows
from zenspark.wire.values import WireExpr

BatchOrTable: TypeAlias = pa.RecordBatch | pa.Table
"""A batch of rows, in one piece or several."""
DELIVERY_SLICE_ROWS = 256
"""Rows delivered locally while the node's lock is held: a whole batch would stall the loop."""
LOOKUP_SLICE_KEYS = 4096
"""Keys looked up while the node's lock is held: some 30 ms if they are new. Shorter slices cost more in between."""

SettingsOverride: TypeAlias = Callable[[KeyExpr, PublishSettings], PublishSettings]
"""Returns the settings of publications on a key, given those of the batch."""


class TargetKeys(msgspec.Struct):
    """The keys a link is a target of, with their wire expressions there, and its egress interceptor."""

    interceptor: Interceptor | None
    exprs: dict[str, WireExpr] = msgspec.field(default_factory=dict)


class SettingsGroup(msgspec.Struct):
    """Rows of a batch that are published with the same settings."""

    settings: PublishSettings
    keys: list[str]
    runs: list[QosRun]


class BatchPublisher:
    """Publishes record batches, on one key or on those in their column `key`; `override` may change settings by key."""

    def __init__(
        self,
        runtime: SessionRuntime,
        settings: PublishSettings,
        key_expr: KeyExpr | None = None,
        override: SettingsOverride | None = None,
    ) -> None:
        self._runtime = runtime
        self._settings = settings
        self._key_expr = key_expr
        self._override = override

    def put(self, batches: BatchOrTable) -> int:
        """Publish every row; returns the number of sends to a neighbour that were dropped because of congestion.

        Neighbours come first: they must not wait for a receiver of this session.
        """
        if not isinstance(batches, pa.RecordBatch | pa.Table):
            raise TypeError(f"expected a pyarrow.RecordBatch or Table, found {type(batches).__name__!r}")
        record_batches = batches.to_batches() if isinstance(batches, pa.Table) else [batches]
        groups = [group for batch in record_batches if batch.num_rows for group in self._prepare(batch)]
        dropped = sum(self._send_to_neighbours(group) for group in groups)
        self._deliver_local(groups)
        return dropped

    def _prepare(self, batch: pa.RecordBatch) -> list[SettingsGroup]:
        """Validate a batch and split it by settings: every error is raised here, before anything is sent."""
        zid = self._runtime.node.identity.zid
        valid = validate_batch(batch, zid)
        keys = self._keys(valid)
        add_timestamps = self._settings.add_timestamps
        if self._runtime.timestamps.is_enabled if add_timestamps is None else add_timestamps:
            valid = fill_timestamps(valid, zid, self._runtime.timestamps.reserve)
        to_wire_rows(valid, WireExpr(0, keys[0]), encoding=self._settings.encoding)
        keys_by_settings = self._group_by_settings(keys)
        return [
            self._make_group(
                valid if len(keys_by_settings) == 1 else _select_keys(valid, group_keys), settings, group_keys
            )
            for settings, group_keys in keys_by_settings.items()
        ]

    def _group_by_settings(self, keys: list[str]) -> dict[PublishSettings, list[str]]:
        """Return the keys for each set of settings."""
        if self._override is None:
            return {self._settings: keys}
        groups: dict[PublishSettings, list[str]] = {}
        for key in keys:
            groups.setdefault(self._override(KeyExpr(key), self._settings), []).append(key)
        return groups

    def _make_group(self, batch: pa.RecordBatch, settings: PublishSettings, keys: list[str]) -> SettingsGroup:
        columns = [name for name in batch.schema.names if name not in settings.overridden_columns]
        return SettingsGroup(settings, keys, list(split_by_qos(batch.select(columns), settings.qos, settings.reliable)))

    def _keys(self, batch: pa.RecordBatch) -> list[str]:
        if "key" not in batch.schema.names:
            if self._key_expr is None:
                raise UsageError("the batch needs a column 'key'")
            return [str(self._key_expr)]
        column = batch.column("key")
        keys: list[str] = pc.unique(column).to_pylist()
        for key in keys:
            self._check_key(key, column)
        return keys

    def _check_key(self, key: str, column: pa.Array) -> None:
        try:
            if self._runtime.validate_key(key) != self._key_expr and self._key_expr is not None:
                raise UsageError(f"this publisher publishes on {self._key_expr}")
        except UsageError as error:
            raise RowError(pc.index(column, key).as_py(), f"has the key {key!r}: {error}") from error

    def _send_to_neighbours(self, group: SettingsGroup) -> int:
        """Send the rows of a group; returns the number of sends that were dropped."""
        if group.settings.destination is Locality.SESSION_LOCAL:
            return 0
        targets, key_count = self._find_targets(group.keys), len(group.keys)
        return sum(
            self._send(run, driver, target, key_count) for run in group.runs for driver, target in targets.items()
        )

    def _find_targets(self, keys: list[str]) -> dict[LinkDriver, TargetKeys]:
        """Return the keys each link is a target of; routes may change between slices of keys, as between puts."""
        targets: dict[LinkDriver, TargetKeys] = {}
        for slice_keys in _key_slices(keys):
            with self._runtime.lock:
                for key in slice_keys:
                    for driver, expr, interceptor in publish_targets(self._runtime, key, self._key_expr is not None):
                        targets.setdefault(driver, TargetKeys(interceptor)).exprs[key] = expr
        return targets

    def _send(self, run: QosRun, driver: LinkDriver, target: TargetKeys, key_count: int) -> int:
        batch, exprs = run.batch, target.exprs
        if len(exprs) < key_count:
            batch = _select_keys(batch, list(exprs))
        expr = next(iter(exprs.values())) if len(exprs) == 1 else None
        if not batch.num_rows:
            return 0
        prefixed, qos = batch if expr is not None else self._with_prefix(batch), run.qos.for_patch(driver.patch)
        rows = to_wire_rows(prefixed, expr, qos, self._settings.encoding)
        if target.interceptor is not None:
            return self._send_individually(rows, run.reliable, driver, target.interceptor)
        driver.publish_rows(rows, run.qos, run.reliable)
        return int(rows.count) - int(rows.row)

    def _send_individually(
        self, rows: OutgoingRows, reliable: bool, driver: LinkDriver, interceptor: Interceptor
    ) -> int:
        """Send row by row, each through the egress interceptor."""
        dropped = 0
        for row in range(rows.count):
            push = intercept_egress(self._runtime, interceptor, rows.push(row), reliable)
            if push is not None:
                dropped += not driver.publish(encode_for(push, driver), None, push.qos, reliable)
        return dropped

    def _with_prefix(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return a batch with the namespace before its keys."""
        namespace = self._runtime.namespace
        if not namespace.is_used:
            return batch
        prefixed = pa.array([namespace.add_prefix(key) for key in batch.column("key").to_pylist()])
        return batch.set_column(batch.schema.get_field_index("key"), "key", prefixed)

    def _deliver_local(self, groups: list[SettingsGroup]) -> None:
        """Deliver rows to the subscribers of this session, as samples; wait after each slice for those that are full.

        A subscriber that takes no items meanwhile gets the other rows at once. After the last one it is waited for once
        more, and is stalled if it still takes none.
        """
        backpressure = self._runtime.backpressure
        without_capacity: dict[DeliverySink[Sample], None] = {}
        for samples in self._local_slices(groups):
            for sink in self._deliver_slice(samples):
                if sink not in without_capacity and not backpressure.wait_for_capacity(sink):
                    without_capacity[sink] = None
        backpressure.wait(without_capacity)

    def _local_slices(self, groups: list[SettingsGroup]) -> Iterator[list[Sample]]:
        """Yield the rows that may be for subscribers of this session, as samples."""
        for group in groups:
            if group.settings.destination is not Locality.REMOTE and self._has_local_subscriber(group.keys):
                for run in group.runs:
                    yield from self._sample_slices(run, group.keys)

    def _deliver_slice(self, samples: list[Sample]) -> Iterable[DeliverySink[Sample]]:
        """Deliver samples to the subscribers of this session; return those that were full at any of them."""
        full: dict[DeliverySink[Sample], None] = {}
        with self._runtime.lock:
            for sample in samples:
                full.update(dict.fromkeys(self._runtime.subscriptions.deliver(sample, True)))
        return full

    def _has_local_subscriber(self, keys: list[str]) -> bool:
        """Return whether a subscriber of this session matches any of these keys."""
        for slice_keys in _key_slices(keys):
            with self._runtime.lock:
                if any(self._runtime.subscriptions.matching(key, True) for key in slice_keys):
                    return True
        return False

    def _sample_slices(self, run: QosRun, keys: list[str]) -> Iterator[list[Sample]]:
        """Yield the rows as samples, `DELIVERY_SLICE_ROWS` at a time."""
        expr = WireExpr(0, keys[0]) if len(keys) == 1 else None
        rows = to_wire_rows(run.batch, expr, run.qos, self._settings.encoding)
        key_exprs = {key: KeyExpr(key) for key in keys}
        for start in range(0, rows.count, DELIVERY_SLICE_ROWS):
            pushes = [rows.push(row) for row in range(start, min(start + DELIVERY_SLICE_ROWS, rows.count))]
            yield [
                sample_from_body(push.body, key_exprs[push.wire_expr.suffix], run.qos, run.reliable) for push in pushes
            ]


def _key_slices(keys: list[str]) -> Iterator[list[str]]:
    """Yield the keys, `LOOKUP_SLICE_KEYS` at a time; lets a thread that waits for the lock take it in between."""
    for start in range(0, len(keys), LOOKUP_SLICE_KEYS):
        if start:
            time.sleep(0)  # a lock released and acquired at once never reaches the thread that waits for it
        yield keys[start : start + LOOKUP_SLICE_KEYS]


def _select_keys(batch: pa.RecordBatch, keys: list[str]) -> pa.RecordBatch:
    """Return the rows with one of these keys."""
    return batch.filter(pc.is_in(batch.column("key"), pa.array(keys)))
