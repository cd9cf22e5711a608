"""Options of the sources and the sink: one frozen struct per direction, parsed from Spark's options.

Option names are the field names in camelCase and case-insensitive, as in Spark. The descriptions of the fields are
those of the manual: `markdown_table` renders them. Spark passes every value as text; the type of the field determines its format:

* a list: one text, or a JSON list of several, `["a/**", "b/**"]`;
* offsets: `earliest`, `latest`, or JSON with an offset for each recorder, `{"robot": 1200}`, where -2 is earliest, -1 latest;
* a time: milliseconds since 1970, or as in RFC 3339, `2026-11-16T03:00:00Z`.
"""  # noqa: E501 - an example that belongs on one line

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, ClassVar, Literal, Self, TypeAlias, get_args, get_origin, get_type_hints

import msgspec

from zenspark.config.schema import describe_type
from zenspark.errors import UsageError
from zenspark.key import KeyExpr
from zenspark.types.timestamps import EPOCH

Names: TypeAlias = tuple[str, ...]
Positive = Annotated[int, msgspec.Meta(ge=1)]
EARLIEST, LATEST = -2, -1
"""Symbolic offsets, as in Spark's Kafka source."""
READER_ENTRY = "@reader"
"""Entry of a stream offset that is not a recorder: the id of the query, under which the journals store its progress."""


class Offsets(msgspec.Struct, frozen=True):
    """Start or end per recorder: an offset, EARLIEST or LATEST; `others` applies to recorders not named."""

    others: int
    named: dict[str, int] = {}

    def of(self, recorder: str) -> int:
        return self.named.get(recorder, self.others)


class Time(msgspec.Struct, frozen=True):
    """A point in time, in microseconds since 1970."""

    micros: int


def _doc(text: str) -> msgspec.Meta:
    return msgspec.Meta(description=text)


PARALLELISM = (
    "number of concurrent tasks, i.e. `spark.sparkContext.defaultParallelism`; default: the number of processors of "
    "the driver's machine, which is too few for a cluster"
)


class Options(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Options of one direction, validated as a whole on construction."""

    PURPOSE: ClassVar[str]
    """Purpose of the options, as error messages name it: `there is no option x PURPOSE`."""

    @classmethod
    def names(cls) -> dict[str, str]:
        """Return the option names by their lower-case form."""
        return {field.encode_name.lower(): field.encode_name for field in msgspec.structs.fields(cls)}

    @classmethod
    def of(cls, given: Mapping[str, str]) -> Self:
        """Parse the options given by Spark; raises UsageError that names the invalid option and the expected value."""
        hints = get_type_hints(cls, include_extras=True)
        fields = {field.encode_name: field.name for field in msgspec.structs.fields(cls)}
        values: dict[str, Any] = {}
        for name, text in _user_options(given, cls.names(), cls.PURPOSE).items():
            values[fields[name]] = _parse_value(name, text, hints[fields[name]])
        return cls(**values)


def _user_options(given: Mapping[str, str], known: Mapping[str, str], purpose: str) -> dict[str, str]:
    """Return the given options under their proper names, without those of Spark."""
    options: dict[str, str] = {}
    for name, text in given.items():
        if name.lower() in SPARK_OPTIONS:
            continue
        proper = known.get(ALIASES.get(name.lower(), name.lower()))
        if proper is None:
            near = difflib.get_close_matches(name.lower(), known, n=1)
            hint = f"did you mean {known[near[0]]}?" if near else f"there are {', '.join(sorted(known.values()))}"
            raise UsageError(f"there is no option {name} {purpose}: {hint}")
        if proper in options:
            raise UsageError(f"option {proper} is given twice, once as {name}")
        options[proper] = text
    return options


SPARK_OPTIONS = frozenset({"checkpointlocation"})
"""Options of Spark that it passes together with those of a sink."""
ALIASES = {"path": "journal"}
"""`load("dir")` gives a path."""


class NetworkOptions(Options, frozen=True, kw_only=True, rename="camel"):
    """Options of the node that a stream, a query or a sink runs in a network."""

    PURPOSE: ClassVar[str] = "in a network"

    connect: Annotated[Names, _doc("endpoints to connect to, such as `tcp/localhost:7447`")] = ()
    listen: Annotated[Names, _doc("endpoints to listen on")] = ()
    mode: Annotated[
        Literal["client", "peer", "router"] | None,
        _doc("mode of the node; default `client`, or `peer` if `listen` is set"),
    ] = None
    config: Annotated[
        str | None,
        _doc("path of a zenohd configuration file, e.g. for TLS; it must exist on every node"),
    ] = None

    @property
    def has_endpoint(self) -> bool:
        return bool(self.connect or self.listen or self.config)

    @property
    def role(self) -> str:
        return self.mode or ("peer" if self.listen else "client")


class StreamOptions(NetworkOptions, frozen=True, kw_only=True, rename="camel"):
    """Options of a stream that reads journals, or records into one."""

    PURPOSE: ClassVar[str] = "for a stream of format zenoh"

    journal: Annotated[Names, _doc("directories of journals to read; `load(directory)` is the same")] = ()
    subscribe: Annotated[
        Names,
        _doc(
            "key expressions that the stream records itself, into its single `journal`, through `connect` or `listen`"
        ),
    ] = ()
    starting_offsets: Annotated[
        Offsets, _doc("where a new query begins: `earliest`, `latest`, or JSON with an offset for each recorder")
    ] = Offsets(EARLIEST)
    starting_timestamp: Annotated[
        Time | None, _doc("a new query begins with the first row received at this time or later")
    ] = None
    max_offsets_per_trigger: Annotated[Positive | None, _doc("maximum number of rows per batch")] = None
    max_bytes_per_trigger: Annotated[
        Positive | None,
        _doc(
            "maximum journal bytes per batch, in whole blocks; a batch has at least one block of each journal. If "
            "`maxOffsetsPerTrigger` is set as well, both limits apply"
        ),
    ] = None
    min_partitions: Annotated[
        Positive | None, _doc("minimum number of tasks per batch; default: as few as its rows need")
    ] = None
    parallelism: Annotated[Positive | None, _doc(PARALLELISM)] = None
    fail_on_data_loss: Annotated[
        bool,
        _doc("whether rows trimmed before they were read fail the query; otherwise they are skipped with a warning"),
    ] = True
    reader: Annotated[
        str | None,
        _doc(
            "name under which the journals store the progress of the query; default: a random name, kept in the "
            "checkpoint"
        ),
    ] = None
    slices: Annotated[
        bool,
        _doc(
            "whether rows are journal slices with the fields of `zenspark.journal.Slice` instead of samples; tasks "
            "then read the samples themselves, without passing them through Java"
        ),
    ] = False
    backfill: Annotated[
        str,
        _doc(
            "whether to query, when recording starts, the samples published since the newest timestamp of the journal: "
            "`false`, `true`, or a start time for an empty journal, such as `now(-1h)`"
        ),
    ] = "false"

    def __post_init__(self) -> None:
        _check_journal(self.journal, bool(self.subscribe))
        _check_choice(self.starting_offsets != Offsets(EARLIEST), self.starting_timestamp, "starting")
        if self.has_endpoint != bool(self.subscribe):
            missing = "subscribe" if self.has_endpoint else "connect, listen or config"
            raise UsageError(f"a stream that records needs option {missing}, too")
        for text in self.subscribe:
            KeyExpr(text)
        if self.subscribe and len(self.journal) != 1:
            raise UsageError("option journal: a stream that records writes exactly one journal")
        if self.backfill != "false" and not self.subscribe:
            raise UsageError("option backfill: only a stream that records, with subscribe, can backfill")


class BatchOptions(NetworkOptions, frozen=True, kw_only=True, rename="camel"):
    """Options of a batch that reads journals, or queries a network."""

    PURPOSE: ClassVar[str] = "for reading format zenoh"

    journal: Annotated[Names, _doc("directories of journals to read; `load(directory)` is the same")] = ()
    starting_offsets: Annotated[Offsets, _doc("start: `earliest`, or JSON with an offset for each recorder")] = Offsets(
        EARLIEST
    )
    ending_offsets: Annotated[Offsets, _doc("end (exclusive): `latest`, or JSON with an offset for each recorder")] = (
        Offsets(LATEST)
    )
    starting_timestamp: Annotated[Time | None, _doc("start at the first row received at this time or later")] = None
    ending_timestamp: Annotated[Time | None, _doc("end before the first row received at this time or later")] = None
    min_partitions: Annotated[Positive | None, _doc("minimum number of tasks; default: as few as the rows need")] = None
    parallelism: Annotated[Positive | None, _doc(PARALLELISM)] = None
    fail_on_data_loss: Annotated[
        bool, _doc("whether trimmed offsets are an error; otherwise they are skipped with a warning")
    ] = True
    push_down: Annotated[
        bool,
        _doc(
            "whether filters on keys, offsets and times are applied while reading. Only for a DataFrame that is used "
            "once: Spark 4.3 applies the filters pushed down last to every later use of the same DataFrame"
        ),
    ] = False
    selector: Annotated[Names, _doc("selectors to query through `connect`, such as `fleet/**?_time=[now(-1h)..]`")] = ()
    target: Annotated[Literal["bestMatching", "all", "allComplete"], _doc("which matching queryables are queried")] = (
        "bestMatching"
    )
    consolidation: Annotated[
        Literal["auto", "none", "monotonic", "latest"], _doc("how several replies for one key are consolidated")
    ] = "auto"
    timeout: Annotated[float, _doc("timeout of a selector in seconds")] = 10.0
    on_error: Annotated[
        Literal["fail", "row"],
        _doc(
            "how error replies and timeouts are handled: `fail` fails the query; `row` returns a row of kind `ERROR` "
            "or `TIMEOUT` with the text in an additional column `error`"
        ),
    ] = "fail"

    def __post_init__(self) -> None:
        if bool(self.journal) == bool(self.selector):
            raise UsageError("reading needs one of the options journal and selector, and not both")
        if self.selector and not self.has_endpoint:
            raise UsageError("option selector needs connect, listen or config: where to query")
        if self.journal and self.has_endpoint:
            raise UsageError("options connect, listen and config are for option selector: option journal reads files")
        _check_journal(self.journal or ("",), False)
        _check_choice(self.starting_offsets != Offsets(EARLIEST), self.starting_timestamp, "starting")
        _check_choice(self.ending_offsets != Offsets(LATEST), self.ending_timestamp, "ending")
        for selector in self.selector:
            KeyExpr(selector.partition("?")[0])


def options_for_reader(given: Mapping[str, str]) -> BatchOptions | StreamOptions:
    """Parse the options of a source for its schema, where Spark does not indicate stream or batch."""
    both = StreamOptions.names() | BatchOptions.names()
    names = _user_options(given, both, BatchOptions.PURPOSE)
    only_streams = StreamOptions.names().keys() - BatchOptions.names().keys()
    is_stream = any(name.lower() in only_streams for name in names)
    return StreamOptions.of(given) if is_stream else BatchOptions.of(given)


class SinkOptions(NetworkOptions, frozen=True, kw_only=True, rename="camel"):
    """Options of the sink, which publishes rows."""

    PURPOSE: ClassVar[str] = "for writing format zenoh"

    key_column: Annotated[str, _doc("column with the keys")] = "key"
    key_prefix: Annotated[str | None, _doc("prefix of every key, joined with a slash")] = None
    encoding: Annotated[str | None, _doc("encoding of rows whose column `encoding` is null or missing")] = None
    priority: Annotated[
        Literal["REAL_TIME", "INTERACTIVE_HIGH", "INTERACTIVE_LOW", "DATA_HIGH", "DATA", "DATA_LOW", "BACKGROUND"],
        _doc("priority of rows whose column `priority` is null or missing"),
    ] = "DATA"
    congestion: Annotated[
        Literal["BLOCK", "DROP", "BLOCK_FIRST"],
        _doc(
            "congestion control of rows whose column `congestion` is null or missing; all but `BLOCK` may drop rows, "
            "which are counted"
        ),
    ] = "BLOCK"
    express: Annotated[bool, _doc("whether rows are sent immediately instead of batched")] = False
    reliability: Annotated[
        Literal["reliable", "bestEffort"], _doc("reliability of rows whose column `reliable` is null or missing")
    ] = "reliable"
    identity: Annotated[
        Literal["none", "attachment", "sourceInfo"],
        _doc("where each row carries a unique identity, so that receivers can drop duplicates"),
    ] = "none"
    identity_column: Annotated[
        str | None, _doc("column with the identity; default: query, batch, partition and row")
    ] = None
    timeout: Annotated[
        float, _doc("timeout in seconds until the node that a client is connected to has received the rows of a task")
    ] = 60.0

    def __post_init__(self) -> None:
        if not self.has_endpoint:
            raise UsageError("writing needs option connect, listen or config: where to publish")
        if self.key_prefix is not None:
            KeyExpr(self.key_prefix)
        if self.identity_column is not None and self.identity != "attachment":
            raise UsageError("option identityColumn goes with identity=attachment")


def _check_journal(journal: Names, records: bool) -> None:
    if not journal:
        more = "the directory to record into" if records else "a directory that a recorder writes"
        raise UsageError(f"option journal is missing: {more}")
    if len(set(journal)) < len(journal):
        raise UsageError("option journal names a directory twice")


def _check_choice(has_offsets: bool, timestamp: Time | None, which: str) -> None:
    if has_offsets and timestamp is not None:
        raise UsageError(f"{which}Offsets and {which}Timestamp exclude each other")


# --- texts to values ----------------------------------------------------------------------------------------------


def _parse_value(name: str, text: str, hint: Any) -> Any:  # noqa: ANN401 - any type of a field
    plain = get_args(hint)[0] if get_origin(hint) is Annotated else hint
    parse: Callable[[str], Any] = PARSERS.get(plain, lambda given: msgspec.convert(given, plain, strict=False))
    try:
        return parse(text)
    except (ValueError, TypeError):
        expected = EXPECTED_FORMS.get(plain) or describe_type(plain)
        raise UsageError(f"option {name}: expected {expected}, found {text!r}") from None


def _names(text: str) -> Names:
    if not text.strip():
        raise ValueError
    names = json.loads(text) if text.lstrip().startswith("[") else [text]
    if not names or not all(isinstance(name, str) and name for name in names):
        raise ValueError
    return tuple(names)


def _offsets(text: str) -> Offsets:
    symbols = {"earliest": EARLIEST, "latest": LATEST}
    if text.strip().lower() in symbols:
        return Offsets(symbols[text.strip().lower()])
    named = msgspec.json.decode(text, type=dict[str, int])
    named.pop(READER_ENTRY, None)  # present if the offsets are copied from the progress of a query
    if not named or min(named.values()) < EARLIEST:
        raise ValueError
    return Offsets(EARLIEST, named)


def _time(text: str) -> Time:
    if text.strip().isdecimal():
        return Time(int(text) * 1000)
    time = datetime.fromisoformat(text.strip())
    since = (time if time.tzinfo else time.replace(tzinfo=UTC)) - EPOCH
    return Time((since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds)


PARSERS: dict[Any, Callable[[str], Any]] = {Names: _names, Offsets: _offsets, Time | None: _time}
EXPECTED_FORMS: dict[Any, str] = {
    Names: "a text, or a JSON list of texts",
    Offsets: 'earliest, latest, or JSON such as {"recorder": 1200}',
    Time | None: "milliseconds since 1970, or a time such as 2026-11-16T03:00:00Z",
}


# --- the manual ---------------------------------------------------------------------------------------------------


def markdown_table(options: type[Options]) -> str:
    """Render the options of one direction as a Markdown table for the manual."""
    hints = get_type_hints(options, include_extras=True)
    lines = ["| option | default | meaning |", "|---|---|---|"]
    for field in msgspec.structs.fields(options):
        (meta,) = [mark for mark in hints[field.name].__metadata__ if isinstance(mark, msgspec.Meta)]
        lines.append(f"| `{field.encode_name}` | {_format_default(field.default)} | {meta.description} |")
    return "\n".join(lines)


def _format_default(default: Any) -> str:  # noqa: ANN401 - any default of a field
    match default:
        case None | ():
            return ""
        case bool():
            return f"`{str(default).lower()}`"
        case Offsets():
            return "`earliest`" if default.others == EARLIEST else "`latest`"
        case _:
            return f"`{default}`"
