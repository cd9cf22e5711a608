"""`latest`: the newest sample of every key.

*Newest* is by the hybrid clock: (time of the stamp, id of the clock), then the offset. A sample without a stamp
counts as stamped when it was received, as a zenohd that stores it would stamp it. A DELETE removes its key. A sample
whose key has wildcards is no key of its own: a DELETE removes all keys it includes that are older, a PUT gives its
value to all of them that are there and older. Whatever arrives later with an older stamp changes nothing, so the
order of arrival does not matter.

Stored are the newest rows per key of each fold, DELETEs too, since a PUT that is older than they may still come.
After `GRACE` a DELETE is forgotten at the next merge: a sample delayed longer than that brings its key back.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from zenspark.journal.packing import TEXT
from zenspark.spark.functions import zenoh_key_match
from zenspark.spark.lake.derived import MERGED, NEW
from zenspark.spark.lake.shapes import JOURNAL, LATEST

GRACE = "INTERVAL 1 DAY"
WILD = "wild"
"""The part with the rows whose keys have wildcards: few, and needed whole."""
SIGN = -(2**63)
STAMP_ID_DIGITS = 32
_ORDER = ("_stamp", "_id", "offset", "recorder")


class Latest:
    """Makes `latest` out of samples."""

    shape = LATEST
    needs = "key"
    columns: tuple[str, ...] = tuple(JOURNAL.names)
    digested = LATEST.schema
    has_state = False

    def digest(self, rows: pa.Table) -> pa.Table:
        """Of some rows, those that `newest` would choose."""
        group = groups_of(rows["key"].chunk(0), rows["kind"].chunk(0))
        stamps = stamps_of(rows)
        best = np.zeros(int(group.max()) + 1, np.uint64)
        np.maximum.at(best, group, stamps)
        places = np.flatnonzero(stamps == best[group])
        first = rows.take(places).append_column("_group", pa.array(group[places]))
        chosen = one_of_each(first).drop_columns("_group").select(JOURNAL.names)
        part = pc.if_else(pc.match_substring(chosen["key"].cast(TEXT), "*"), WILD, NEW)
        return chosen.append_column("part", part)

    def step(self, digests: DataFrame, state: DataFrame) -> DataFrame:
        return digests

    def merge(self, stored: DataFrame) -> DataFrame:
        recent = F.col("received_at") >= F.current_timestamp() - F.expr(GRACE)
        removed = newest(stored).where((F.col("kind") == "DELETE") & ~is_wild("key") & recent)
        wild = newest(stored.where(F.col("part") == WILD)).where(recent)
        merged = self.view(stored).unionByName(removed).withColumn("part", F.lit(MERGED))
        return merged.unionByName(wild.withColumn("part", F.lit(WILD)))

    def view(self, stored: DataFrame) -> DataFrame:
        exact = newest(stored.where(F.col("part") != WILD)).where(F.col("kind") == "PUT")
        wild = newest(stored.where(F.col("part") == WILD))
        kinds = {row.kind for row in wild.select("kind").distinct().collect()}
        if "DELETE" in kinds:
            exact = without_removed(exact, wild.where(F.col("kind") == "DELETE"))
        if "PUT" in kinds:
            exact = with_updates(exact, wild.where(F.col("kind") == "PUT"))
        return exact


# --- with Arrow, for digests ------------------------------------------------------------------------------------------


def groups_of(keys: pa.DictionaryArray, kinds: pa.DictionaryArray) -> npt.NDArray[np.int64]:
    """A number for each row, the same where only one of them can be the newest."""
    is_wild = pc.match_substring(keys.dictionary, "*").to_numpy(zero_copy_only=False)
    is_delete = pc.equal(kinds.dictionary, "DELETE").to_numpy(zero_copy_only=False)
    key, kind = keys.indices.to_numpy(), kinds.indices.to_numpy()
    group: npt.NDArray[np.int64] = key.astype(np.int64) * 2
    return group + (is_wild[key] & is_delete[kind]) if is_wild.any() else group


def stamps_of(rows: pa.Table) -> Any:  # noqa: ANN401 - an array of unsigned 64-bit integers
    """When each row was made: what `stamp` says of it, as an unsigned number."""
    ntp64 = rows["timestamp_ntp64"].chunk(0)
    if not ntp64.null_count:
        return ntp64.to_numpy().view(np.uint64)
    micros = rows["received_at"].chunk(0).cast(pa.int64()).to_numpy()
    seconds, rest = np.divmod(micros, 1_000_000)
    received = (seconds << 32) + np.floor(rest * (2**32 / 1_000_000)).astype(np.int64)
    known = pc.fill_null(ntp64, 0).to_numpy()
    return np.where(ntp64.is_valid().to_numpy(zero_copy_only=False), known, received).view(np.uint64)


def one_of_each(rows: pa.Table) -> pa.Table:
    """Of rows with the newest stamp of their `_group`, one for each: where stamps are equal, the rest decides."""
    if len(pc.unique(rows["_group"])) == rows.num_rows:
        return rows
    clock = pc.utf8_lpad(pc.fill_null(rows["timestamp_id"].cast(TEXT), ""), STAMP_ID_DIGITS, "0")
    keys = {"_group": rows["_group"], "_id": clock, "offset": rows["offset"], "recorder": rows["recorder"].cast(TEXT)}
    ways = ["ascending", "descending", "descending", "descending"]
    ordered = rows.take(pc.sort_indices(pa.table(keys), sort_keys=list(zip(keys, ways, strict=True))))
    return ordered.filter(pa.array(np.diff(ordered["_group"].to_numpy(), prepend=-1) > 0))


# --- with Spark, for readers ------------------------------------------------------------------------------------------


def is_wild(key: str) -> Column:
    """Whether a key has wildcards."""
    return F.col(key).contains("*")


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


def without_removed(exact: DataFrame, wild: DataFrame) -> DataFrame:
    """Leaves out the keys that a newer DELETE with wildcards includes."""
    removed = _met(exact, wild).select("key").distinct()
    return exact.join(removed, "key", "left_anti")


def with_updates(exact: DataFrame, wild: DataFrame) -> DataFrame:
    """Gives keys the value of the newest PUT with wildcards that includes them, if it is newer than theirs."""
    met = _met(exact, wild)
    order = Window.partitionBy("key").orderBy(F.col("_rank").desc())
    columns = [F.col(f"_wild.{name}").alias(name) for name in JOURNAL.names if name != "key"]
    first = met.withColumn("_place", F.row_number().over(order)).where("_place = 1").select("key", *columns)
    untouched = exact.join(first.select("key"), "key", "left_anti")
    return untouched.unionByName(first)


def _met(exact: DataFrame, wild: DataFrame) -> DataFrame:
    """Keys with the rows with wildcards that include them and are newer: `_wild`, ordered by `_rank`."""
    rank = F.struct(*_ORDER)
    mine = ranked(exact).select("key", rank.alias("_own"))
    theirs = ranked(wild).select(rank.alias("_rank"), F.struct(*JOURNAL.names).alias("_wild"))
    pairs = mine.crossJoin(F.broadcast(theirs)).where("_rank > _own")
    return pairs.where(zenoh_key_match("key", F.col("_wild.key")))
