"""`latest`: the newest sample of every key.

*Newest* is by the hybrid clock: (time of the stamp, id of the clock), then the offset. A sample without a stamp
counts as stamped when it was received, as a zenohd that stores it would stamp it. A DELETE removes its key. A sample
whose key has wildcards is no key of its own: a DELETE removes all keys it includes that are older, a PUT gives its
value to all of them that are there and older. Whatever arrives later with an older stamp changes nothing, so the
order of arrival does not matter.

The state has the newest rows per key of each refresh, DELETEs too, since a PUT that is older than they may still
arrive. A merge that takes everything in forgets a DELETE, and a row with wildcards, a day after it was received
(`derived.GRACE`): a sample that is delayed longer than that brings its key back.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from zenspark.journal.block_codec import TEXT
from zenspark.key.match import includes
from zenspark.lake.levels import NEW, WILD, WILD_PARTS, is_old
from zenspark.lake.specs import JOURNAL, LATEST, LATEST_STATE
from zenspark.spark.ingest.read_files import spark_schema

SIGN = -(2**63)
STAMP_ID_DIGITS = 32
_ORDER = ("_stamp", "_id", "offset", "recorder")

Stamps = npt.NDArray[np.uint64]
Rank = tuple[int, str, int, str]
"""What orders rows: stamp, clock, offset and recorder."""


class Latest:
    """Makes `latest` out of samples."""

    state = LATEST_STATE
    public = LATEST
    order: tuple[str, ...] = ("key",)
    columns: tuple[str, ...] = tuple(JOURNAL.names)
    digested = LATEST_STATE.schema
    has_state = False
    forgets = True

    def digest(self, rows: pa.Table) -> pa.Table:
        """Of some samples, those that may be the newest of their keys."""
        chosen = self.reduce(rows)
        part = pc.if_else(pc.match_substring(chosen["key"].cast(TEXT), "*"), WILD, NEW)
        return chosen.append_column("part", part)

    def step(self, digests: DataFrame, state: DataFrame) -> DataFrame:
        return digests

    def step_rows(self, digests: pa.Table, state: pa.Table) -> pa.Table:
        return digests

    def reduce(self, rows: pa.Table) -> pa.Table:
        """The newest row per key; of keys with wildcards, the newest PUT and the newest DELETE."""
        if not rows.num_rows:
            return rows.select(JOURNAL.names)
        group = groups_of(rows["key"].chunk(0), rows["kind"].chunk(0))
        stamps = stamps_of(rows)
        best = np.zeros(int(group.max()) + 1, np.uint64)
        np.maximum.at(best, group, stamps)
        places = np.flatnonzero(stamps == best[group])
        first = rows.take(places).append_column("_group", pa.array(group[places]))
        return one_of_each(first).drop_columns("_group").select(JOURNAL.names)

    def forget(self, rows: pa.Table, wild: pa.Table, limits: Mapping[str, int]) -> pa.Table:
        """Leaves out DELETEs received before the limits of their recorders, and applies rows with wildcards.

        A PUT with wildcards is applied when it is forgotten, not before: a DELETE older than it may still arrive.
        """
        rows, wild = rows.cast(JOURNAL), wild.cast(JOURNAL)
        old = wild.filter(pc.and_(is_old(wild, limits), pc.equal(wild["kind"], "PUT")))
        deletes = wild.filter(pc.equal(wild["kind"], "DELETE"))
        puts = apply_wild(rows.filter(pc.equal(rows["kind"], "PUT")), pa.concat_tables([deletes, old]))
        removed = rows.filter(pc.equal(rows["kind"], "DELETE"))
        return pa.concat_tables([puts, removed.filter(pc.invert(is_old(removed, limits)))])

    def resolve(self, rows: pa.Table, wild: pa.Table) -> pa.Table:
        """The rows of the public table: PUTs, and what rows with wildcards make of them."""
        return apply_wild(rows.filter(pc.equal(rows["kind"].cast(TEXT), "PUT")).cast(JOURNAL), wild.cast(JOURNAL))

    def view(self, stored: DataFrame, parts: Collection[str]) -> DataFrame:
        exact = newest(stored.where(~in_wild_part())).where(F.col("kind") == "PUT")
        if not set(parts) & set(WILD_PARTS):
            return exact
        wild = newest(stored.where(in_wild_part())).toArrow().cast(JOURNAL)
        return exact.mapInArrow(partial(_apply, wild), spark_schema(JOURNAL)) if wild.num_rows else exact


# --- rows with wildcards ----------------------------------------------------------------------------------------------


def apply_wild(rows: pa.Table, wild: pa.Table) -> pa.Table:
    """The newest rows of keys when newer DELETEs and PUTs with wildcards have been applied to them."""
    if not wild.num_rows or not rows.num_rows:
        return rows
    rows, wild = rows.combine_chunks(), wild.combine_chunks()
    removed = np.zeros(rows.num_rows, np.bool_)
    chosen = np.full(rows.num_rows, -1, np.int64)
    stamps, ranks = stamps_of(rows), _ranks(wild)
    for place in sorted(range(wild.num_rows), key=ranks.__getitem__):
        met = _included_and_older(rows, stamps, wild["key"][place].as_py(), ranks[place])
        if wild["kind"][place].as_py() == "DELETE":
            removed[met] = True
        else:
            chosen[met] = place
    updated = np.flatnonzero(~removed & (chosen >= 0))
    new = wild.take(chosen[updated]).set_column(0, JOURNAL.field("key"), rows["key"].take(updated))
    return pa.concat_tables([rows.filter(pa.array(~removed & (chosen < 0))), new])


def _apply(wild: pa.Table, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same for batches of Spark."""
    for batch in batches:
        yield from apply_wild(pa.Table.from_batches([batch]).cast(JOURNAL), wild).to_batches()


def _included_and_older(rows: pa.Table, stamps: Stamps, expression: str, rank: Rank) -> list[int]:
    """The places of rows whose keys an expression includes, and that are older than its row."""
    begins = pc.starts_with(rows["key"], literal_prefix(expression)).to_numpy()
    limit = np.uint64(rank[0])
    found = np.flatnonzero(begins & (stamps <= limit))
    keys = rows["key"].take(found).to_pylist()
    included = [place for place, key in zip(found.tolist(), keys, strict=True) if includes(expression, key)]
    return [place for place in included if stamps[place] < limit or _ranks(rows.slice(place, 1))[0] < rank]


def _ranks(rows: pa.Table) -> list[Rank]:
    """What orders rows, as values that can be compared."""
    clocks = pc.utf8_lpad(pc.fill_null(rows["timestamp_id"].cast(TEXT), ""), STAMP_ID_DIGITS, "0").to_pylist()
    names = rows["recorder"].cast(TEXT).to_pylist()
    return list(zip(stamps_of(rows).tolist(), clocks, rows["offset"].to_pylist(), names, strict=True))


def literal_prefix(expression: str) -> str:
    """What all keys that an expression includes begin with: `a/**` includes `a`, too."""
    return expression[: expression.index("*")].removesuffix("$").removesuffix("/")


# --- with Arrow -------------------------------------------------------------------------------------------------------


def groups_of(keys: pa.DictionaryArray, kinds: pa.DictionaryArray) -> npt.NDArray[np.int64]:
    """A number for each row, the same where only one of them can be the newest."""
    is_wild = pc.match_substring(keys.dictionary, "*").to_numpy(zero_copy_only=False)
    is_delete = pc.equal(kinds.dictionary, "DELETE").to_numpy(zero_copy_only=False)
    key, kind = keys.indices.to_numpy(), kinds.indices.to_numpy()
    group: npt.NDArray[np.int64] = key.astype(np.int64) * 2
    return group + (is_wild[key] & is_delete[kind]) if is_wild.any() else group


def stamps_of(rows: pa.Table) -> Stamps:
    """When each row was made: what `stamp` says of it, as an unsigned number."""
    ntp64 = rows["timestamp_ntp64"].combine_chunks()
    if not ntp64.null_count:
        return ntp64.to_numpy().view(np.uint64)  # type: ignore[no-any-return]
    micros = rows["received_at"].combine_chunks().cast(pa.int64()).to_numpy()
    seconds, rest = np.divmod(micros, 1_000_000)
    received = (seconds << 32) + np.floor(rest * (2**32 / 1_000_000)).astype(np.int64)
    known = pc.fill_null(ntp64, 0).to_numpy()
    is_known = ntp64.is_valid().to_numpy(zero_copy_only=False)
    return np.where(is_known, known, received).view(np.uint64)  # type: ignore[no-any-return]


def one_of_each(rows: pa.Table) -> pa.Table:
    """Of rows with the newest stamp of their `_group`, one for each: where stamps are equal, the rest decides."""
    if len(pc.unique(rows["_group"])) == rows.num_rows:
        return rows
    clock = pc.utf8_lpad(pc.fill_null(rows["timestamp_id"].cast(TEXT), ""), STAMP_ID_DIGITS, "0")
    keys = {"_group": rows["_group"], "_id": clock, "offset": rows["offset"], "recorder": rows["recorder"].cast(TEXT)}
    ways = ["ascending", "descending", "descending", "descending"]
    ordered = rows.take(pc.sort_indices(pa.table(keys), sort_keys=list(zip(keys, ways, strict=True))))
    return ordered.filter(pa.array(np.diff(ordered["_group"].to_numpy(), prepend=-1) > 0))


# --- with Spark -------------------------------------------------------------------------------------------------------


def is_wild(key: str) -> Column:
    """Whether a key has wildcards."""
    return F.col(key).contains("*")


def in_wild_part() -> Column:
    """Whether a row of the state is in a part with rows whose keys have wildcards."""
    return F.col("part").isin(*WILD_PARTS)


def stamp(ntp64: str, received_at: str) -> Column:
    """When a row was made, as a number that orders rows as their clocks do."""
    micros = F.unix_micros(received_at)
    seconds, rest = F.floor(micros / F.lit(1_000_000)), micros % F.lit(1_000_000)
    received = F.shiftleft(seconds, 32) + F.floor(rest * F.lit(2**32 / 1_000_000))
    # the bits are those of an unsigned number: with the sign turned round, signed order is their order
    return F.coalesce(F.col(ntp64), received).bitwiseXOR(F.lit(SIGN))


def ranked(rows: DataFrame) -> DataFrame:
    """Rows with the columns that order them."""
    clock = F.lpad(F.coalesce("timestamp_id", F.lit("")), STAMP_ID_DIGITS, "0")  # hexadecimal, without leading zeros
    return rows.withColumns({"_stamp": stamp("timestamp_ntp64", "received_at"), "_id": clock})


def newest(rows: DataFrame) -> DataFrame:
    """The newest row per key; of keys with wildcards, the newest PUT and the newest DELETE.

    First by numbers alone, which Spark sums up without sorting; what is left, one row per key but for equal stamps,
    is sorted.
    """
    group = F.when(is_wild("key"), F.col("kind")).otherwise(F.lit(""))
    given = ranked(rows).withColumn("_group", group)
    best = given.groupBy("key", "_group").agg(F.max("_stamp").alias("_stamp"))
    left = given.join(best, ["key", "_group", "_stamp"], "left_semi")
    order = Window.partitionBy("key", "_group").orderBy(*(F.col(name).desc() for name in _ORDER[1:]))
    return left.withColumn("_place", F.row_number().over(order)).where("_place = 1").select(JOURNAL.names)
