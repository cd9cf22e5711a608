"""Values, serialization and configuration beside eclipse-zenoh's own: the same calls, the same outcome.

Nothing here opens a session, so these tests always run. Where zenspark means to differ (it accepts more, or returns
where the other one panics), the case is left out here and stands in the unit test of its file.
"""

from __future__ import annotations

import inspect
import json
import os
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from enum import Enum
from functools import partial
from types import GenericAlias, SimpleNamespace
from typing import Any

import pytest
import zenoh
import zenoh.ext
import zenoh.handlers
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import examples
from zenspark.api import ext
from zenspark.config.config import Config
from zenspark.errors import ZError
from zenspark.handlers import handler as handlers
from zenspark.key import KeyExpr
from zenspark.types import encoding, enums, ids, timestamp_stack, timestamps, zbytes
from zenspark.types import network_info as values
from zenspark.types import selector as parameters

MODULES = (encoding, enums, ids, timestamp_stack, parameters, timestamps, values, zbytes)
OURS: Any = SimpleNamespace(ext=ext, handlers=handlers, Config=Config, ZError=ZError, KeyExpr=KeyExpr)
for module in MODULES:
    for name in dir(module):
        if hasattr(zenoh, name):
            setattr(OURS, name, getattr(module, name))
THEIRS: Any = zenoh
Api = Any
Case = Callable[[Api], object]

# What other parts of zenspark bring: sessions, what they declare, and what arrives there.
ELSEWHERE = {"CancellationToken", "Handler", "LinkEventsListener", "Liveliness", "LivelinessToken", "MatchingListener"}
ELSEWHERE |= {"Publisher", "Querier", "Query", "Queryable", "Reply", "Sample", "Scout", "Session", "SessionInfo"}
ELSEWHERE |= {"Subscriber", "TransportEventsListener", "init_log_from_env_or", "open", "scout", "try_init_log_from_env"}
# What ours have in common with theirs, though their class hides it or has it by another name.
HIDDEN = {"handlers", "shm", "zenoh"}


def outcome(api: Api, case: Case) -> object:
    """What a call gives, as far as both sides can be compared: text and numbers as they are, errors by their kind."""
    try:
        return case(api)
    except (TypeError, OverflowError, AssertionError, ValueError) as error:
        kinds = (TypeError, OverflowError, AssertionError, ValueError)
        return next(kind.__name__ for kind in kinds if isinstance(error, kind))
    except api.ZError:
        return "ZError"


def same(case: Case) -> None:
    theirs = outcome(THEIRS, case)
    ours = outcome(OURS, case)
    assert ours == theirs
    assert isinstance(theirs, str | bytes | int | float | list | tuple | None | datetime | timedelta)


# --- names ----------------------------------------------------------------------------------------


def test_public_names_of_eclipse_zenoh_exist() -> None:
    public = {name for name in dir(zenoh) if not name.startswith("_")} - HIDDEN
    assert public - ELSEWHERE <= set(vars(OURS))


@pytest.mark.parametrize("name", sorted({name for name in dir(zenoh) if not name.startswith("_")} - ELSEWHERE - HIDDEN))
def test_public_methods_of_eclipse_zenoh_exist(name: str) -> None:
    for method in dir(getattr(zenoh, name)):
        assert method.startswith("_") or hasattr(getattr(OURS, name), method)


@pytest.mark.parametrize("name", sorted({name for name in dir(zenoh.ext) if not name.startswith("_")}))
def test_every_name_of_ext_is_there(name: str) -> None:
    assert hasattr(ext, name)


@pytest.mark.parametrize("name", zenoh.handlers.__all__)  # type: ignore[attr-defined]  # the stubs leave it out
def test_every_name_of_handlers_is_there(name: str) -> None:
    assert hasattr(handlers, name)


@pytest.mark.parametrize(
    ("cls", "method"),
    [
        (cls, method)
        for cls in ("Config", "Encoding", "NTP64", "Timestamp", "Parameters", "WhatAmIMatcher", "ZBytes")
        for method in sorted(vars(getattr(zenoh, cls)))
        if not method.startswith("_") and callable(getattr(getattr(zenoh, cls), method))
    ],
)
def test_parameters_have_the_same_names(cls: str, method: str) -> None:
    theirs = list(inspect.signature(getattr(getattr(zenoh, cls), method)).parameters)
    ours = list(inspect.signature(getattr(getattr(OURS, cls), method)).parameters)
    assert ours[: len(theirs)] == theirs


# --- enumerations ---------------------------------------------------------------------------------

ENUMS = [name for name in enums.__all__ if isinstance(getattr(enums, name), type(Enum))]


@pytest.mark.parametrize("name", [name for name in ENUMS if name != "SetIntersectionLevel"])
def test_members_have_the_same_names_and_numbers(name: str) -> None:
    theirs, ours = getattr(zenoh, name), getattr(OURS, name)
    members = [member for member in vars(theirs) if member.isupper()]
    assert set(ours.__members__) <= set(members)
    for member in members:
        assert int(getattr(ours, member)) == int(getattr(theirs, member))
        assert str(getattr(ours, member)) == str(getattr(theirs, member))
        assert repr(getattr(ours, member)) == repr(getattr(theirs, member))


@pytest.mark.parametrize(
    "case",
    [
        lambda api: str(api.WhatAmI("peer")),
        lambda api: str(api.WhatAmI("Peer")),
        lambda api: str(api.WhatAmIMatcher("peer|router")),
        lambda api: str(api.WhatAmIMatcher(" client |")),
        lambda api: str(api.WhatAmIMatcher("foo")),
        lambda api: str(api.WhatAmIMatcher(None)),
        lambda api: str(api.WhatAmIMatcher.empty().client().router()),
        lambda api: api.WhatAmIMatcher.empty().is_empty(),
        lambda api: api.WhatAmIMatcher("peer").matches(api.WhatAmI.PEER),
        lambda api: api.WhatAmI.ROUTER in api.WhatAmIMatcher("peer"),
        lambda api: str(api.WhatAmI.PEER | api.WhatAmI.CLIENT),
        lambda api: str(api.WhatAmI.PEER | "router"),
        lambda api: str(api.WhatAmI.PEER | 3),
        lambda api: str(api.QueryConsolidation(api.ConsolidationMode.LATEST).mode()),
        lambda api: str(api.QueryConsolidation.DEFAULT.mode()),
        lambda api: str(api.QueryConsolidation(3)),
    ],
)
def test_whatami_and_consolidation_cases_equal_eclipse_zenoh(case: Case) -> None:
    same(case)


# --- encodings ------------------------------------------------------------------------------------

TEXTS = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
    st.sampled_from(["text/plain", "application/json", "zenoh/bytes"]),
    st.builds("{};{}".format, st.sampled_from(["text/plain", "my/type", ""]), st.text("ab;=é", max_size=5)),
)


@pytest.mark.parametrize("name", [name for name in vars(zenoh.Encoding) if name.isupper()])
def test_constants_of_encodings(name: str) -> None:
    same(lambda api: str(getattr(api.Encoding, name)))


@examples(100)
@given(TEXTS, TEXTS)
def test_encodings_equal_eclipse_zenoh(text: str, schema: str) -> None:
    same(lambda api: str(api.Encoding(text)))
    same(lambda api: api.Encoding(text) == schema)
    same(lambda api: api.Encoding(text) == api.Encoding(schema))
    same(lambda api: hash(api.Encoding(text)))
    same(lambda api: str(api.Encoding(text).with_schema(schema)))


@pytest.mark.parametrize("wrong", [3, b"text/plain", 3.5, [""]])
def test_encodings_of_other_types(wrong: object) -> None:
    same(lambda api: str(api.Encoding(wrong)))
    same(lambda api: str(api.Encoding.TEXT_PLAIN.with_schema(wrong)))
    same(lambda api: wrong == api.Encoding.TEXT_PLAIN)


# --- times ----------------------------------------------------------------------------------------

SECONDS = st.integers(0, (1 << 32) - 1)
NANOSECONDS = st.integers(0, 999_999_999)
TIMES = st.datetimes(datetime(1970, 1, 1), datetime(2106, 1, 1), timezones=st.just(UTC))
RAW_IDS = st.binary(max_size=18)
STAMPED_BY = ("/33", "/AB", "/0a", "/", "/zz", "", "/33/44", "/" + "a" * 32, "/" + "a" * 33)


@examples(100)
@given(SECONDS, NANOSECONDS)
def test_ntp64_equals_eclipse_zenoh(seconds: int, nanoseconds: int) -> None:
    same(lambda api: str(api.NTP64(seconds, nanoseconds)))
    same(lambda api: repr(api.NTP64(seconds, nanoseconds)))
    same(lambda api: api.NTP64(seconds, nanoseconds).as_secs())
    same(lambda api: api.NTP64(seconds, nanoseconds).as_secs_f64())
    same(lambda api: api.NTP64(seconds, nanoseconds).as_nanos())
    same(lambda api: api.NTP64(seconds, nanoseconds).subsec_nanos())
    same(lambda api: api.NTP64(seconds, nanoseconds).to_datetime())
    same(lambda api: api.NTP64(seconds, nanoseconds).to_string_rfc3339_lossy())
    same(lambda api: str(api.NTP64.parse_rfc3339(api.NTP64(seconds, nanoseconds).to_string_rfc3339_lossy())))


@examples(100)
@given(SECONDS, NANOSECONDS, SECONDS, NANOSECONDS)
def test_ntp64_comparison_equals_eclipse_zenoh(seconds: int, nanoseconds: int, others: int, rest: int) -> None:
    same(lambda api: api.NTP64(seconds, nanoseconds) < api.NTP64(others, rest))
    same(lambda api: api.NTP64(seconds, nanoseconds) >= api.NTP64(others, rest))
    same(lambda api: api.NTP64(seconds, nanoseconds) == api.NTP64(others, rest))


@pytest.mark.parametrize(
    "text",
    [
        *("2024-07-01T13:51:12Z", "2024-07-01T13:51:12.1Z", "2024-07-01T13:51:12.1234567899Z"),
        *("2024-07-01T13:51:12.Z", "2024-07-01T13:51:60Z", "2024-07-01T13:51:60.5Z", "2024-07-01T13:51:61Z"),
        *("2024-07-01T13:51:12", "2024-07-01T13:51:12.", "2024-07-01 13:51:12Z", "2024-07-01t13:51:12z"),
        *("2024-07-01T13:51:12+02:00", "2024-07-01T13:51:12-00:00", "2024-7-01T13:51:12Z", "2024-07-01T13:51Z"),
        *("2024-02-30T13:51:00Z", "2024-02-29T00:00:00Z", "2023-02-29T00:00:00Z", "1969-12-31T23:59:59Z"),
        *("0000-01-01T00:00:00Z", "+2024-07-01T00:00:00Z", " 2024-07-01T13:51:12Z", "foo", "", "2024-07-01T24:00:00Z"),
    ],
)
def test_rfc3339_parsing_equals_eclipse_zenoh(text: str) -> None:
    same(lambda api: str(api.NTP64.parse_rfc3339(text)))
    same(lambda api: [outcome(api, partial(parsed, text=text + by)) for by in STAMPED_BY])


def parsed(api: Api, text: str) -> str:
    return str(api.Timestamp.parse_rfc3339(text))


@examples(100)
@given(RAW_IDS, RAW_IDS)
def test_timestamp_ids_equal_eclipse_zenoh(raw: bytes, other: bytes) -> None:
    same(lambda api: str(api.TimestampId(raw)))
    same(lambda api: bytes(api.TimestampId(bytearray(raw))))
    same(lambda api: repr(api.TimestampId(list(raw))))
    same(lambda api: api.TimestampId(raw) < api.TimestampId(other))
    same(lambda api: api.TimestampId(raw) == api.TimestampId(other))
    same(lambda api: api.TimestampId(raw) == raw)


@examples(100)
@given(TIMES, RAW_IDS, TIMES, RAW_IDS)
def test_timestamps_equal_eclipse_zenoh(time: datetime, raw: bytes, later: datetime, other: bytes) -> None:
    time, later = sorted([time, later])
    same(lambda api: str(api.Timestamp(time, raw)))
    same(lambda api: repr(api.Timestamp(time, raw)))
    same(lambda api: api.Timestamp(time, raw).get_time())
    same(lambda api: str(api.Timestamp(time, raw).get_time_as_ntp64()))
    same(lambda api: bytes(api.Timestamp(time, raw).get_id()))
    same(lambda api: api.Timestamp(time, raw).to_string_rfc3339_lossy())
    same(lambda api: api.Timestamp(later, other).get_diff_duration(api.Timestamp(time, raw)))
    same(lambda api: [api.Timestamp(time, raw) < api.Timestamp(moment, other) for moment in (time, later)])
    same(lambda api: [api.Timestamp(time, raw) >= api.Timestamp(moment, other) for moment in (time, later)])
    same(lambda api: [api.Timestamp(time, raw) == api.Timestamp(moment, other) for moment in (time, later)])


@pytest.mark.parametrize(
    "case",
    [
        lambda api: str(api.NTP64(-1, 0)),
        lambda api: str(api.NTP64(1, 1_500_000_000)),
        lambda api: str(api.NTP64("a", 1)),
        lambda api: api.NTP64(1, 2) == 8,
        lambda api: api.NTP64(1, 2) < 8,
        lambda api: str(api.TimestampId("a")),
        lambda api: str(api.TimestampId(3)),
        lambda api: str(api.Timestamp(3, b"3")),
        lambda api: str(api.Timestamp(datetime(2024, 1, 1), b"3")),
        lambda api: str(api.Timestamp(datetime(1960, 1, 1, tzinfo=UTC), b"3")),
        lambda api: str(api.Timestamp(api.NTP64(1, 2), api.TimestampId(b"3"))),
        lambda api: str(api.Timestamp(api.NTP64(1, 2), "a")),
        lambda api: api.Timestamp(api.NTP64(1, 2), b"3").get_diff_duration(3),
        lambda api: str(api.TimestampInstrumentationBuilder().set_send(True).set_receive(True).build()),
        lambda api: str(api.TimestampInstrumentationBuilder().set_route(True).set_route(False).build()),
        lambda api: str(api.TimestampInstrumentationBuilder().set_send(1)),
        lambda api: (
            api.TimestampInstrumentationBuilder().set_send(True).build().is_instrumented(api.InterceptionPoint.ROUTE)
        ),
    ],
)
def test_timestamp_constructor_cases_equal_eclipse_zenoh(case: Case) -> None:
    same(case)


# --- payloads -------------------------------------------------------------------------------------

CONTENTS = st.one_of(st.binary(max_size=30), st.text(st.characters(exclude_categories=["Cs"]), max_size=10))


@examples(100)
@given(CONTENTS, CONTENTS)
def test_zbytes_equal_eclipse_zenoh(content: bytes | str, other: bytes | str) -> None:
    same(lambda api: api.ZBytes(content).to_bytes())
    same(lambda api: bytes(api.ZBytes(content)))
    same(lambda api: api.ZBytes(content).to_string())
    same(lambda api: str(api.ZBytes(content)))
    same(lambda api: len(api.ZBytes(content)))
    same(lambda api: bool(api.ZBytes(content)))
    same(lambda api: hash(api.ZBytes(content)))
    same(lambda api: api.ZBytes(content) == other)
    same(lambda api: api.ZBytes(content) != api.ZBytes(other))


@pytest.mark.parametrize("obj", [None, bytearray(b"abc"), 3, 3.5, True, [1, 2], (1,), {}, object()])
def test_payloads_of_other_types(obj: object) -> None:
    same(lambda api: api.ZBytes(obj).to_bytes())
    same(lambda api: api.ZBytes(b"") == obj)
    same(lambda api: api.ZBytes(b"abc") == obj)


# --- parameters and selectors ---------------------------------------------------------------------

PARAMETERS = st.text("ab=;|? é", max_size=12)
NAMES = st.text("ab=", max_size=2)


@examples(100)
@given(PARAMETERS, NAMES, PARAMETERS)
def test_parameters_equal_eclipse_zenoh(text: str, key: str, value: str) -> None:
    same(lambda api: str(api.Parameters(text)))
    same(lambda api: list(api.Parameters(text)))
    same(lambda api: api.Parameters(text).get(key))
    same(lambda api: api.Parameters(text).get(key, value))
    same(lambda api: api.Parameters(text).values(key))
    same(lambda api: api.Parameters(text)[key])
    same(lambda api: key in api.Parameters(text))
    same(lambda api: bool(api.Parameters(text)))
    same(lambda api: api.Parameters(text).is_empty())
    same(lambda api: api.Parameters(text).is_ordered())
    same(lambda api: changed(api, text, lambda parameters: parameters.insert(key, value)))
    same(lambda api: changed(api, text, lambda parameters: parameters.remove(key)))
    same(lambda api: changed(api, text, lambda parameters: parameters.extend(value)))
    same(lambda api: changed(api, text, lambda parameters: parameters.extend(api.Parameters(value))))
    same(lambda api: changed(api, text, lambda parameters: parameters.extend({key: value})))
    same(lambda api: str(api.Parameters({key: value})))


def changed(api: Api, text: str, change: Callable[[Any], object]) -> tuple[object, str]:
    parameters = api.Parameters(text)
    return change(parameters), str(parameters)


@pytest.mark.parametrize("wrong", [3, [("a", "1")], {"a": 1}, {1: "a"}])
def test_parameters_of_other_types(wrong: object) -> None:
    same(lambda api: str(api.Parameters(wrong)))
    same(lambda api: str(api.Selector("a", wrong)))
    same(lambda api: str(api.Selector(wrong)))


@examples(100)
@given(st.text("ab/*$?#=;", max_size=12), PARAMETERS)
def test_selectors_equal_eclipse_zenoh(text: str, more: str) -> None:
    same(lambda api: str(api.Selector(text)))
    same(lambda api: str(api.Selector(text).key_expr))
    same(lambda api: str(api.Selector(text).parameters))
    same(lambda api: str(api.Selector(text, more)))
    same(lambda api: str(api.Selector(text, parameters={"a": more})))
    same(lambda api: str(api.Selector(api.KeyExpr(text), api.Parameters(more))))


# --- serialization --------------------------------------------------------------------------------

SIZED = [name for name in vars(zenoh.ext) if name.startswith(("Int", "UInt"))]


def item_types(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Types as functions of the API, since the sized numbers are classes of their own on either side."""
    return st.one_of(
        st.builds(lambda of: lambda api: GenericAlias(list, of(api)), inner),
        st.builds(lambda of: lambda api: GenericAlias(tuple, (of(api), bool)), inner),
        st.builds(lambda of: lambda api: GenericAlias(dict, (str, of(api))), inner),
    )


SIMPLE = st.one_of(
    st.sampled_from([bool, int, float, str, bytes, bytearray]).map(lambda tp: lambda api: tp),
    st.sampled_from([*SIZED, "Float32", "Float64"]).map(lambda name: lambda api: getattr(api.ext, name)),
)
TYPES = st.recursive(SIMPLE, item_types, max_leaves=4)
# A count beyond the bytes there are makes the other one reserve the memory at once, and abort.
SHORT = st.lists(st.integers(0, 5), max_size=40).map(bytes)


@examples(400)
@given(TYPES, SHORT)
def test_deserialization_equals_eclipse_zenoh(tp: Callable[[Api], Any], raw: bytes) -> None:
    def read(api: Api) -> object:
        try:
            return repr(api.ext.z_deserialize(tp(api), api.ZBytes(raw)))
        except api.ext.ZDeserializeError:
            return "ZDeserializeError"

    same(read)


@examples(400)
@given(TYPES, SHORT)
def test_reserialized_value_equals_eclipse_zenoh(tp: Callable[[Api], Any], raw: bytes) -> None:
    def write(api: Api) -> object:
        try:
            value = api.ext.z_deserialize(tp(api), api.ZBytes(raw))
        except api.ext.ZDeserializeError:
            return "ZDeserializeError"
        return repr(api.ext.z_deserialize(tp(api), api.ext.z_serialize(value))) if is_plain(value) else ""

    same(write)


def is_plain(value: object) -> bool:
    """Whether types survive: items of sized numbers come back as plain integers on the other side."""
    return type(value) in (bool, str, bytes, bytearray) or (isinstance(value, float) and value == value)


@pytest.mark.parametrize("name", SIZED)
@examples(100)
@given(st.integers(-(1 << 129), 1 << 129))
def test_sized_integers(name: str, number: int) -> None:
    same(lambda api: int(getattr(api.ext, name)(number)))
    same(lambda api: api.ext.z_serialize(getattr(api.ext, name)(number)).to_bytes())


@examples(100)
@given(st.floats(), st.sampled_from(["Float32", "Float64"]))
def test_sized_floats(number: float, name: str) -> None:
    same(lambda api: api.ext.z_serialize(getattr(api.ext, name)(number)).to_bytes())
    same(lambda api: api.ext.z_serialize(number).to_bytes())


@pytest.mark.parametrize(
    "case",
    [
        *(lambda api, value=value: api.ext.z_serialize(value).to_bytes() for value in [1, -1, 2**31, True, "é", b"ab"]),
        *(lambda api, value=value: api.ext.z_serialize(value).to_bytes() for value in [[], (), {}, {1: "a"}, ([1],)]),
        *(
            lambda api, value=value: api.ext.z_serialize(value).to_bytes()
            for value in [[1, "a"], [1, True], {1: 2, 3: "a"}]
        ),
        *(
            lambda api, value=value: api.ext.z_serialize(value).to_bytes()
            for value in [None, 1j, range(3), [None], int]
        ),
        *(lambda api, value=value: api.ext.z_serialize(value).to_bytes() for value in [[[1], ["a"]], [()], "a" * 200]),
        lambda api: api.ext.z_serialize(api.ZBytes(b"ab")).to_bytes(),
        lambda api: api.ext.z_serialize([1, api.ext.Int32(2)]).to_bytes(),
        lambda api: api.ext.z_deserialize(api.ZBytes, api.ZBytes(b"\2ab")).to_bytes(),
        lambda api: api.ext.z_deserialize(tuple[int, ...], api.ZBytes(b"\0")),
        lambda api: api.ext.z_deserialize(list, api.ZBytes(b"\0")),
        lambda api: api.ext.z_deserialize(object, api.ZBytes(b"\0")),
        lambda api: api.ext.z_deserialize(int, b"\0\0\0\0"),
        lambda api: sorted(api.ext.z_deserialize(set[int], api.ext.z_serialize({1, 2}))),
        lambda api: sorted(api.ext.z_deserialize(frozenset[str], api.ext.z_serialize({"a", "b"}))),
        lambda api: api.ext.z_deserialize(list[tuple[()]], api.ZBytes(b"\5")),
    ],
)
def test_serialization_case_by_case(case: Case) -> None:
    same(case)


# --- handlers -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "case",
    [
        lambda api: str(type(api.handlers.FifoChannel(3)).__name__),
        lambda api: api.handlers.FifoChannel(-1),
        lambda api: api.handlers.RingChannel("a"),
        lambda api: api.handlers.FifoChannel(),
        lambda api: api.handlers.Callback(len)("abc"),
        lambda api: api.handlers.Callback(len, drop=None, indirect=False).indirect,
        lambda api: api.handlers.Callback(len).indirect,
        lambda api: api.handlers.Callback(len).drop,
        lambda api: api.handlers.Callback(len, None, False),
        lambda api: api.handlers.Callback(),
        lambda api: str(api.handlers.Handler[int]).endswith("Handler[int]"),
    ],
)
def test_handler_cases_equal_eclipse_zenoh(case: Case) -> None:
    same(case)


# --- configuration --------------------------------------------------------------------------------


def without_threads(text: str) -> Any:  # noqa: ANN401 - anything JSON has
    return json.loads(re.sub(r'("threads":)\d+', r"\g<1>0", text))  # depends on the processors there


def test_defaults_of_every_key() -> None:
    assert without_threads(str(Config())) == without_threads(str(zenoh.Config()))
    if os.cpu_count() in (1, 2, 3, 4):
        assert str(Config()) == str(zenoh.Config())


def sections(document: dict[str, Any], path: str = "") -> list[str]:
    inner = [
        below
        for name, value in document.items()
        if isinstance(value, dict)
        for below in sections(value, f"{path}{name}/")
    ]
    return [f"{path}{name}" for name in document] + inner


KEYS = [key for key in sections(json.loads(str(zenoh.Config()))) if not key.startswith("listen/endpoints/")]
KEPT_ONLY = ("gateway/south", "stats/filters", "transport_optimization/messages")
ON_PURPOSE = {  # where the other one takes names that do not exist, lists for objects, or null for a number
    "{zzz: 1}": ("/retry", "autoconnect_strategy"),
    "['x']": ("auth/pubkey", "link/tls"),
    "null": ("plugins", "multicast/join_interval", "multicast/max_sessions"),
}


@pytest.mark.parametrize("key", [key for key in KEYS if not any(part in key for part in KEPT_ONLY)])
def test_single_config_key_equals_eclipse_zenoh(key: str) -> None:
    assert without_threads(Config().get_json(key)) == without_threads(zenoh.Config().get_json(key))
    for value in (Config().get_json(key), "null", "'x'", "3", "true", "{}", "{zzz: 1}", "['x']", "client"):
        if not key.endswith(ON_PURPOSE.get(value, ("nowhere",))):
            same(partial(inserted, key=key, value=value))


def inserted(api: Api, key: str, value: str) -> Any:  # noqa: ANN401 - anything JSON has
    config = api.Config()
    config.insert_json5(key, value)
    return str(without_threads(config.get_json(key)))


@pytest.mark.parametrize(
    "text",
    [
        *("{}", "", "null", "3", "{mode: 'client'}", "{mode: 'clien'}", "{mode: null}", "{foo: 1}", "{connect: null}"),
        *("{connect: {endpoints: ['tcp/a:1', {strategy: 'oneOf', locators: ['tcp/b:1']}]}}", "{connect: {foo: 1}}"),
        *("{connect: {endpoints: ['tcp/a:1#iface=lo']}}", "{connect: {endpoints: ['tcp/a?']}}", "{id: 'abc'}"),
        *("{connect: {endpoints: {router: ['tcp/a:1'], peer: []}}}", "{connect: {endpoints: {foo: []}}}"),
        *("{connect: {timeout_ms: {router: -1, peer: 3}}}", "{connect: {timeout_ms: 'a'}}", "{id: '0abc'}"),
        *("{connect: {retry: {period_init_ms: {router: 3}}}}", "{connect: {retry: 3}}", "{id: 'ABC'}", "{id: ''}"),
        *("{scouting: {multicast: {autoconnect: {peer: ['router', 'peer']}}}}", "{namespace: 'a/b'}"),
        *("{scouting: {multicast: {autoconnect: 'router|peer'}}}", "{namespace: 'a/*'}", "{namespace: 'a//b'}"),
        *("{scouting: {multicast: {listen: {router: true}}}}", "{timestamping: {enabled: {router: true, foo: 1}}}"),
        *("{scouting: {multicast: {autoconnect_strategy: {peer: {to_peer: 'greater-zid'}}}}}", "{mode: 'a',}"),
        *("{scouting: {multicast: {autoconnect_strategy: 'foo'}}}", "{mode: 'peer', mode: 'peer'}", "{mode: 'peer'} x"),
        *("{timestamping: {drop_future_timestamp: {router: true}}}", "{transport: {unicast: {open_timeout: 1e3}}}"),
        *("{transport: {link: {tx: {queue: {size: {control: 17}}}}}}", "{transport: {unicast: {open_timeout: 0x10}}}"),
        *(
            "{transport: {link: {tx: {sequence_number_resolution: '64bit'}}}}",
            "{transport: {unicast: {open_timeout: 'x'}}}",
        ),
        *("{plugins: {rest: {http_port: 8000}}}", "{routing: {router: {peers_failover_brokering: true}}}"),
        *("{routing: {peer: {mode: 'linkstate'}}}", "{routing: {foo: 1}}", "{adminspace: {permissions: 3}}"),
        *("{transport: {link: {tls: {root_ca_certificate_base64: 'aa'}}}}", "{transport: {link: {tls: {foo: 1}}}}"),
    ],
)
def test_config_documents_equal_eclipse_zenoh(text: str) -> None:
    same(lambda api: shown(api.Config.from_json5(text)))


def shown(config: Any) -> str:  # noqa: ANN401 - one of two classes
    document = without_threads(str(config))
    document["routing"]["router"].pop("peers_failover_brokering", None)  # read there and not shown
    document["routing"].pop("peer", None)
    strategy = document["scouting"]["multicast"]
    if isinstance(strategy["autoconnect_strategy"], dict):
        strategy["autoconnect_strategy"] = "by target"  # the half that is not set is shown here and not there
    return json.dumps(document, sort_keys=True)
