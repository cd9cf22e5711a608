"""`latest`: the newest sample of every key.

*Newest* is by HLC timestamp (time, clock id), then by offset. A sample without a timestamp is ordered by its reception
time, as a zenohd that stores it would timestamp it. A DELETE removes its key. A sample whose key has wildcards is not a
key: a DELETE removes all older keys it includes, a PUT sets the value of all existing older keys it includes. A sample
that arrives later with an older timestamp changes nothing, so the order of arrival does not matter.

The state has the newest rows per key of each refresh, including DELETEs, because an older PUT may still arrive. A full
merge drops a DELETE, and a row with wildcards, one day after it was received
(`TOMBSTONE_TTL` of the refresh): a sample that is delayed longer than that brings its key back.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from zenspark.journal.block_codec import TEXT_TYPE
from zenspark.key.match import includes
from zenspark.lake.levels import NEW_PART, WILDCARD_PART, received_before
from zenspark.lake.specs import JOURNAL_SCHEMA, LATEST, LATEST_STATE

TIMESTAMP_ID_DIGITS = 32

Timestamps = npt.NDArray[np.uint64]
"""NTP64 timestamps of rows."""
Rank = tuple[int, str, int, str]
"""Sort key of a row: timestamp, clock id, offset, recorder."""


class LatestAggregation:
    """Aggregates samples to the derived table `latest`."""

    state = LATEST_STATE
    public = LATEST
    order: tuple[str, ...] = ("key",)
    columns: tuple[str, ...] = tuple(JOURNAL_SCHEMA.names)
    partial_schema = LATEST_STATE.schema
    needs_state = False
    propagates_deletes = True

    def aggregate_rows(self, rows: pa.Table) -> pa.Table:
        """Select the samples that may be the newest of their keys."""
        chosen = self.reduce(rows)
        part = pc.if_else(pc.match_substring(chosen["key"].cast(TEXT_TYPE), "*"), WILDCARD_PART, NEW_PART)
        return chosen.append_column("part", part)

    def combine_rows(self, partials: pa.Table, state: pa.Table) -> pa.Table:
        return partials

    def reduce(self, rows: pa.Table) -> pa.Table:
        """Keep the newest row per key; of keys with wildcards, the newest PUT and the newest DELETE."""
        if not rows.num_rows:
            return rows.select(JOURNAL_SCHEMA.names)
        group = number_groups(rows["key"].chunk(0), rows["kind"].chunk(0))
        timestamps = compute_timestamps(rows)
        best = np.zeros(int(group.max()) + 1, np.uint64)
        np.maximum.at(best, group, timestamps)
        indices = np.flatnonzero(timestamps == best[group])
        first = rows.take(indices).append_column("_group", pa.array(group[indices]))
        return break_ties(first).drop_columns("_group").select(JOURNAL_SCHEMA.names)

    def drop_expired(self, rows: pa.Table, wildcard_rows: pa.Table, limits: Mapping[str, int]) -> pa.Table:
        """Drop DELETEs received before the limits of their recorders, and apply rows with wildcards.

        A PUT with wildcards is applied when it expires, not before: a DELETE older than it may still arrive.
        """
        rows, wildcard_rows = rows.cast(JOURNAL_SCHEMA), wildcard_rows.cast(JOURNAL_SCHEMA)
        old = wildcard_rows.filter(
            pc.and_(received_before(wildcard_rows, limits), pc.equal(wildcard_rows["kind"], "PUT"))
        )
        deletes = wildcard_rows.filter(pc.equal(wildcard_rows["kind"], "DELETE"))
        puts = apply_wildcards(rows.filter(pc.equal(rows["kind"], "PUT")), pa.concat_tables([deletes, old]))
        removed = rows.filter(pc.equal(rows["kind"], "DELETE"))
        return pa.concat_tables([puts, removed.filter(pc.invert(received_before(removed, limits)))])

    def to_public_rows(self, rows: pa.Table, wildcard_rows: pa.Table) -> pa.Table:
        """Return the rows of the public table: PUTs, after applying rows with wildcards."""
        return apply_wildcards(
            rows.filter(pc.equal(rows["kind"].cast(TEXT_TYPE), "PUT")).cast(JOURNAL_SCHEMA),
            wildcard_rows.cast(JOURNAL_SCHEMA),
        )


# --- rows with wildcards ----------------------------------------------------------------------------------------------


def apply_wildcards(rows: pa.Table, wildcard_rows: pa.Table) -> pa.Table:
    """Apply newer DELETEs and PUTs with wildcards to the newest rows of keys."""
    if not wildcard_rows.num_rows or not rows.num_rows:
        return rows
    rows, wildcard_rows = rows.combine_chunks(), wildcard_rows.combine_chunks()
    removed = np.zeros(rows.num_rows, np.bool_)
    chosen = np.full(rows.num_rows, -1, np.int64)
    timestamps, ranks = compute_timestamps(rows), _ranks(wildcard_rows)
    for index in sorted(range(wildcard_rows.num_rows), key=ranks.__getitem__):
        affected = _included_and_older(rows, timestamps, wildcard_rows["key"][index].as_py(), ranks[index])
        if wildcard_rows["kind"][index].as_py() == "DELETE":
            removed[affected] = True
        else:
            chosen[affected] = index
    updated = np.flatnonzero(~removed & (chosen >= 0))
    new = wildcard_rows.take(chosen[updated]).set_column(0, JOURNAL_SCHEMA.field("key"), rows["key"].take(updated))
    return pa.concat_tables([rows.filter(pa.array(~removed & (chosen < 0))), new])


def _included_and_older(rows: pa.Table, timestamps: Timestamps, expression: str, rank: Rank) -> list[int]:
    """Return the indices of rows whose keys an expression includes and that are older than its row."""
    has_prefix = pc.starts_with(rows["key"], literal_prefix(expression)).to_numpy()
    limit = np.uint64(rank[0])
    candidates = np.flatnonzero(has_prefix & (timestamps <= limit))
    keys = rows["key"].take(candidates).to_pylist()
    included = [index for index, key in zip(candidates.tolist(), keys, strict=True) if includes(expression, key)]
    return [index for index in included if timestamps[index] < limit or _ranks(rows.slice(index, 1))[0] < rank]


def _ranks(rows: pa.Table) -> list[Rank]:
    """Return the sort keys of rows as comparable tuples."""
    clocks = pc.utf8_lpad(pc.fill_null(rows["timestamp_id"].cast(TEXT_TYPE), ""), TIMESTAMP_ID_DIGITS, "0").to_pylist()
    names = rows["recorder"].cast(TEXT_TYPE).to_pylist()
    return list(zip(compute_timestamps(rows).tolist(), clocks, rows["offset"].to_pylist(), names, strict=True))


def literal_prefix(expression: str) -> str:
    """Return the literal prefix of all keys that an expression includes: `a/**` includes `a`, too."""
    return expression[: expression.index("*")].removesuffix("$").removesuffix("/")


# --- with Arrow -------------------------------------------------------------------------------------------------------


def number_groups(keys: pa.DictionaryArray, kinds: pa.DictionaryArray) -> npt.NDArray[np.int64]:
    """Number rows so that rows of which only one can be the newest have the same number."""
    has_wildcards = pc.match_substring(keys.dictionary, "*").to_numpy(zero_copy_only=False)
    is_delete = pc.equal(kinds.dictionary, "DELETE").to_numpy(zero_copy_only=False)
    key, kind = keys.indices.to_numpy(), kinds.indices.to_numpy()
    group: npt.NDArray[np.int64] = key.astype(np.int64) * 2
    return group + (has_wildcards[key] & is_delete[kind]) if has_wildcards.any() else group


def compute_timestamps(rows: pa.Table) -> Timestamps:
    """Return the NTP64 timestamp of each row, or its reception time: `timestamp_column` as unsigned integers."""
    ntp64 = rows["timestamp_ntp64"].combine_chunks()
    if not ntp64.null_count:
        return ntp64.to_numpy().view(np.uint64)  # type: ignore[no-any-return]
    micros = rows["received_at"].combine_chunks().cast(pa.int64()).to_numpy()
    seconds, rest = np.divmod(micros, 1_000_000)
    received = (seconds << 32) + np.floor(rest * (2**32 / 1_000_000)).astype(np.int64)
    timestamped = pc.fill_null(ntp64, 0).to_numpy()
    has_timestamp = ntp64.is_valid().to_numpy(zero_copy_only=False)
    return np.where(has_timestamp, timestamped, received).view(np.uint64)  # type: ignore[no-any-return]


def break_ties(rows: pa.Table) -> pa.Table:
    """Keep one row per `_group` of rows with equal timestamps: clock id, offset and recorder decide."""
    if len(pc.unique(rows["_group"])) == rows.num_rows:
        return rows
    clock = pc.utf8_lpad(pc.fill_null(rows["timestamp_id"].cast(TEXT_TYPE), ""), TIMESTAMP_ID_DIGITS, "0")
    keys = {
        "_group": rows["_group"],
        "_id": clock,
        "offset": rows["offset"],
        "recorder": rows["recorder"].cast(TEXT_TYPE),
    }
    directions = ["ascending", "descending", "descending", "descending"]
    ordered = rows.take(pc.sort_indices(pa.table(keys), sort_keys=list(zip(keys, directions, strict=True))))
    return ordered.filter(pa.array(np.diff(ordered["_group"].to_numpy(), prepend=-1) > 0))
