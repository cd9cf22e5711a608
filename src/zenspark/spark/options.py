"""What the sources and the sink can be told: one frozen struct for each direction, made from Spark's options.

The names are the fields' in camelCase, in any case, as Spark has it. What is said of a field here is what the manual
says: `table` draws it. Every value is a text to Spark; the type of the field says what it must look like:

* a list: one text, or a JSON list of several, `["a/**", "b/**"]`;
* offsets: `earliest`, `latest`, or JSON with an offset for each recorder, `{"robot": 1200}`, where -2 is earliest, -1 latest;
* a time: milliseconds since 1970, or as in RFC 3339, `2026-11-16T03:00:00Z`.
"""  # noqa: E501 - an example that belongs on one line

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, Literal, Self, TypeAlias, get_args, get_origin, get_type_hints

import msgspec

from zenspark.config.schema import expectation
from zenspark.errors import UsageError
from zenspark.key import KeyExpr

Names: TypeAlias = tuple[str, ...]
Positive = Annotated[int, msgspec.Meta(ge=1)]
EARLIEST, LATEST = -2, -1
"""Offsets that stand for a place, as in Spark's Kafka source."""
READER_ENTRY = "@reader"
"""The entry of a stream's offset that is not a recorder: a number that stands for the query in the journals."""


class Offsets(msgspec.Struct, frozen=True):
    """Where to begin or end, for each recorder: an offset, EARLIEST or LATEST; `others` for those not named."""

    others: int
    named: dict[str, int] = {}

    def of(self, recorder: str) -> int:
        return self.named.get(recorder, self.others)


class Time(msgspec.Struct, frozen=True):
    """A point in time, in microseconds since 1970."""

    micros: int


def _says(text: str) -> msgspec.Meta:
    return msgspec.Meta(description=text)


PARALLELISM = (
    "how many tasks can run at once, which is `spark.sparkContext.defaultParallelism`; without it, as many as the "
    "driver's machine has processors, too few for a cluster"
)


class Options(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Options of one direction, checked as a whole when they are made."""

    @classmethod
    def names(cls) -> dict[str, str]:
        """The names of the options, by the same in lower case."""
        return {field.encode_name.lower(): field.encode_name for field in msgspec.structs.fields(cls)}

    @classmethod
    def of(cls, given: Mapping[str, str]) -> Self:
        """From what Spark hands over; UsageError names the option that is wrong, and what would be right."""
        hints = get_type_hints(cls, include_extras=True)
        fields = {field.encode_name: field.name for field in msgspec.structs.fields(cls)}
        values: dict[str, Any] = {}
        for name, text in _own(given, cls.names(), cls.__doc__ or "").items():
            values[fields[name]] = _parsed(name, text, hints[fields[name]])
        return cls(**values)


def _own(given: Mapping[str, str], known: Mapping[str, str], purpose: str) -> dict[str, str]:
    """The given options under their proper names, without those that are Spark's."""
    found: dict[str, str] = {}
    for name, text in given.items():
        if name.lower() in SPARKS_OWN:
            continue
        proper = known.get(ALIASES.get(name.lower(), name.lower()))
        if proper is None:
            near = difflib.get_close_matches(name.lower(), known, n=1)
            hint = f"did you mean {known[near[0]]}?" if near else f"there are {', '.join(sorted(known.values()))}"
            raise UsageError(f"there is no option {name} {purpose}: {hint}")
        if proper in found:
            raise UsageError(f"option {proper} is given twice, once as {name}")
        found[proper] = text
    return found


SPARKS_OWN = frozenset({"checkpointlocation"})
"""What Spark hands over with a sink's own options."""
ALIASES = {"path": "journal"}
"""`load("dir")` gives a path."""


class Network(Options, frozen=True, kw_only=True, rename="camel"):
    """in a network"""

    connect: Annotated[Names, _says("endpoints to connect to, such as `tcp/localhost:7447`")] = ()
    listen: Annotated[Names, _says("endpoints to listen on")] = ()
    mode: Annotated[
        Literal["client", "peer", "router"] | None,
        _says("what kind of node to be; `client` unless it listens, then `peer`"),
    ] = None
    config: Annotated[
        str | None,
        _says("path of a configuration file as zenohd reads it, for TLS and the like; it must be on every node"),
    ] = None

    @property
    def has_endpoint(self) -> bool:
        return bool(self.connect or self.listen or self.config)

    @property
    def role(self) -> str:
        return self.mode or ("peer" if self.listen else "client")


class StreamOptions(Network, frozen=True, kw_only=True, rename="camel"):
    """for a stream of format zenoh"""

    journal: Annotated[Names, _says("directories of journals to read; `load(directory)` is the same")] = ()
    subscribe: Annotated[
        Names,
        _says("key expressions: the stream records them itself, into its one `journal`, from `connect` or `listen`"),
    ] = ()
    starting_offsets: Annotated[
        Offsets, _says("where a new query begins: `earliest`, `latest`, or JSON with an offset for each recorder")
    ] = Offsets(EARLIEST)
    starting_timestamp: Annotated[
        Time | None, _says("a new query begins with the first row received at this time or later")
    ] = None
    max_offsets_per_trigger: Annotated[Positive | None, _says("how many rows a batch has at most")] = None
    max_bytes_per_trigger: Annotated[
        Positive | None,
        _says(
            "how many bytes of the journals a batch has at most, cut between blocks: it has one of each journal in any "
            "case. With `maxOffsetsPerTrigger` besides, both hold"
        ),
    ] = None
    min_partitions: Annotated[
        Positive | None, _says("into how many tasks a batch is divided at least; without it, as few as its rows need")
    ] = None
    parallelism: Annotated[Positive | None, _says(PARALLELISM)] = None
    fail_on_data_loss: Annotated[
        bool,
        _says("whether rows that were trimmed before they were read end the query, or are left out with a warning"),
    ] = True
    reader: Annotated[
        str | None,
        _says(
            "the name under which progress is noted in the journals; without it one is drawn when the query is new, "
            "and kept in its checkpoint"
        ),
    ] = None
    slices: Annotated[
        bool,
        _says(
            "whether a row is not a sample but a part of a journal that has them, with the fields of "
            "`zenspark.journal.Slice`: for those who read it by themselves, without a way through Java"
        ),
    ] = False
    backfill: Annotated[
        str,
        _says(
            "whether to ask, before recording, for what was published since the journal's newest timestamp: `false`, "
            "`true`, or from when on if the journal is empty, such as `now(-1h)`"
        ),
    ] = "false"

    def __post_init__(self) -> None:
        _check_journal(self.journal, bool(self.subscribe))
        _check_choice(self.starting_offsets != Offsets(EARLIEST), self.starting_timestamp, "starting")
        if self.has_endpoint != bool(self.subscribe):
            missing = "subscribe" if self.has_endpoint else "connect, listen or config"
            raise UsageError(f"a stream that records needs option {missing} too")
        for text in self.subscribe:
            KeyExpr(text)
        if self.subscribe and len(self.journal) != 1:
            raise UsageError("option journal: a stream that records writes exactly one journal")
        if self.backfill != "false" and not self.subscribe:
            raise UsageError("option backfill: only a stream that records, with subscribe, can fill in what it missed")


class BatchOptions(Network, frozen=True, kw_only=True, rename="camel"):
    """for reading format zenoh"""

    journal: Annotated[Names, _says("directories of journals to read; `load(directory)` is the same")] = ()
    starting_offsets: Annotated[Offsets, _says("from where: `earliest`, or JSON with an offset for each recorder")] = (
        Offsets(EARLIEST)
    )
    ending_offsets: Annotated[
        Offsets, _says("up to before where: `latest`, or JSON with an offset for each recorder")
    ] = Offsets(LATEST)
    starting_timestamp: Annotated[Time | None, _says("from the first row received at this time or later")] = None
    ending_timestamp: Annotated[Time | None, _says("up to before the first row received at this time or later")] = None
    min_partitions: Annotated[
        Positive | None, _says("into how many tasks a journal is divided at least; without it, as few as its rows need")
    ] = None
    parallelism: Annotated[Positive | None, _says(PARALLELISM)] = None
    fail_on_data_loss: Annotated[
        bool, _says("whether offsets that the journal no longer has are an error, or are left out with a warning")
    ] = True
    push_down: Annotated[
        bool,
        _says(
            "whether filters on keys, offsets and times are applied while reading. Only for a DataFrame that is used "
            "once: Spark 4.3 applies what it pushed down last to every later use of the same DataFrame"
        ),
    ] = False
    selector: Annotated[
        Names, _says("what to ask the network at `connect` for, such as `fleet/**?_time=[now(-1h)..]`")
    ] = ()
    target: Annotated[
        Literal["bestMatching", "all", "allComplete"], _says("which of the matching queryables are asked")
    ] = "bestMatching"
    consolidation: Annotated[
        Literal["auto", "none", "monotonic", "latest"], _says("how several replies for one key become one")
    ] = "auto"
    timeout: Annotated[float, _says("seconds to wait for the replies to a selector")] = 10.0
    on_error: Annotated[
        Literal["fail", "row"],
        _says(
            "what a reply that is an error does, and a selector without a final reply in time: end the query, or "
            "become a row of kind `ERROR` or `TIMEOUT` with its text in the column `error`, which the rows then have"
        ),
    ] = "fail"

    def __post_init__(self) -> None:
        if bool(self.journal) == bool(self.selector):
            raise UsageError("reading needs one of the options journal and selector, and not both")
        if self.selector and not self.has_endpoint:
            raise UsageError("option selector needs connect, listen or config: whom to ask")
        if self.journal and self.has_endpoint:
            raise UsageError("option journal reads files: connect, listen and config are for selector")
        _check_journal(self.journal or ("",), False)
        _check_choice(self.starting_offsets != Offsets(EARLIEST), self.starting_timestamp, "starting")
        _check_choice(self.ending_offsets != Offsets(LATEST), self.ending_timestamp, "ending")
        for selector in self.selector:
            KeyExpr(selector.partition("?")[0])


def reading(given: Mapping[str, str]) -> BatchOptions | StreamOptions:
    """The options of a source when nobody says whether it is for a stream: they tell, or else it does not matter."""
    both = StreamOptions.names() | BatchOptions.names()
    names = _own(given, both, "for reading format zenoh")
    only_streams = StreamOptions.names().keys() - BatchOptions.names().keys()
    is_stream = any(name.lower() in only_streams for name in names)
    return StreamOptions.of(given) if is_stream else BatchOptions.of(given)


class SinkOptions(Network, frozen=True, kw_only=True, rename="camel"):
    """for writing format zenoh"""

    key_column: Annotated[str, _says("the column that has the keys")] = "key"
    key_prefix: Annotated[str | None, _says("put before every key, with a slash between")] = None
    encoding: Annotated[str | None, _says("of rows whose column `encoding` says nothing")] = None
    priority: Annotated[
        Literal["REAL_TIME", "INTERACTIVE_HIGH", "INTERACTIVE_LOW", "DATA_HIGH", "DATA", "DATA_LOW", "BACKGROUND"],
        _says("of rows whose column `priority` says nothing"),
    ] = "DATA"
    congestion: Annotated[
        Literal["BLOCK", "DROP", "BLOCK_FIRST"],
        _says("of rows whose column `congestion` says nothing; all but `BLOCK` may lose rows, and count them"),
    ] = "BLOCK"
    express: Annotated[bool, _says("whether rows are sent at once instead of together")] = False
    reliability: Annotated[Literal["reliable", "bestEffort"], _says("of rows whose column `reliable` says nothing")] = (
        "reliable"
    )
    identity: Annotated[
        Literal["none", "attachment", "sourceInfo"],
        _says("where each row says which one it is, so that receivers can drop those that come again"),
    ] = "none"
    identity_column: Annotated[
        str | None, _says("the column whose value is that identity; without it, query, batch, partition and row")
    ] = None
    timeout: Annotated[float, _says("seconds to wait until the network has taken what a task wrote")] = 60.0

    def __post_init__(self) -> None:
        if not self.has_endpoint:
            raise UsageError("writing needs option connect, listen or config: where to publish")
        if self.key_prefix is not None:
            KeyExpr(self.key_prefix)
        if self.identity_column is not None and self.identity != "attachment":
            raise UsageError("option identityColumn goes with identity=attachment")


def _check_journal(journal: Names, records: bool) -> None:
    if not journal:
        more = "where to keep what it records" if records else "a directory that a recorder writes"
        raise UsageError(f"option journal is missing: {more}")
    if len(set(journal)) < len(journal):
        raise UsageError("option journal names a directory twice")


def _check_choice(has_offsets: bool, timestamp: Time | None, which: str) -> None:
    if has_offsets and timestamp is not None:
        raise UsageError(f"{which}Offsets and {which}Timestamp cannot both say where it is")


# --- texts to values ----------------------------------------------------------------------------------------------


def _parsed(name: str, text: str, hint: Any) -> Any:  # noqa: ANN401 - any type of a field
    plain = get_args(hint)[0] if get_origin(hint) is Annotated else hint
    parse: Callable[[str], Any] = PARSERS.get(plain, lambda given: msgspec.convert(given, plain, strict=False))
    try:
        return parse(text)
    except (ValueError, TypeError):
        wanted = WORDS.get(plain) or expectation(plain)
        raise UsageError(f"option {name}: expected {wanted}, found {text!r}") from None


def _names(text: str) -> Names:
    if not text.strip():
        raise ValueError
    found = json.loads(text) if text.lstrip().startswith("[") else [text]
    if not found or not all(isinstance(each, str) and each for each in found):
        raise ValueError
    return tuple(found)


def _offsets(text: str) -> Offsets:
    places = {"earliest": EARLIEST, "latest": LATEST}
    if text.strip().lower() in places:
        return Offsets(places[text.strip().lower()])
    named = msgspec.json.decode(text, type=dict[str, int])
    named.pop(READER_ENTRY, None)  # it is there if the offsets are those of a query's progress
    if not named or min(named.values()) < EARLIEST:
        raise ValueError
    return Offsets(EARLIEST, named)


def _time(text: str) -> Time:
    if text.strip().isdecimal():
        return Time(int(text) * 1000)
    moment = datetime.fromisoformat(text.strip())
    since = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - datetime(1970, 1, 1, tzinfo=UTC)
    return Time((since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds)


PARSERS: dict[Any, Callable[[str], Any]] = {Names: _names, Offsets: _offsets, Time | None: _time}
WORDS: dict[Any, str] = {
    Names: "a text, or a JSON list of texts",
    Offsets: 'earliest, latest, or JSON such as {"recorder": 1200}',
    Time | None: "milliseconds since 1970, or a time such as 2026-11-16T03:00:00Z",
}


# --- the manual ---------------------------------------------------------------------------------------------------


def table(options: type[Options]) -> str:
    """The options of one direction as a table of the manual."""
    hints = get_type_hints(options, include_extras=True)
    lines = ["| option | default | meaning |", "|---|---|---|"]
    for field in msgspec.structs.fields(options):
        (meta,) = [mark for mark in hints[field.name].__metadata__ if isinstance(mark, msgspec.Meta)]
        lines.append(f"| `{field.encode_name}` | {_spelled(field.default)} | {meta.description} |")
    return "\n".join(lines)


def _spelled(default: Any) -> str:  # noqa: ANN401 - any default of a field
    match default:
        case None | ():
            return ""
        case bool():
            return f"`{str(default).lower()}`"
        case Offsets():
            return "`earliest`" if default.others == EARLIEST else "`latest`"
        case _:
            return f"`{default}`"
