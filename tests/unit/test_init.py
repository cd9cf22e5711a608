"""The names users import."""

from __future__ import annotations

import ast
import builtins
import copy
import doctest
import enum
import importlib
import inspect
import pickle
import pydoc
import re
import subprocess
import sys
from typing import Any

import pyarrow as pa
import pytest

import zenspark
import zenspark.ext
from tests.unit.public_api import (
    INTERNAL,
    MODULES,
    documented,
    examples,
    free_names,
    has_section,
    home_of,
    parameters,
    public_functions,
    public_members,
    public_objects,
    raises,
    returns,
    signature_aliases,
    signature_classes,
    takes_any_arguments,
)
from zenspark._build import build_kind
from zenspark.member_docstrings import from_source
from zenspark.types.sample import SampleHeader
from zenspark.wire import messages
from zenspark.wire import values as wire


def test_version_is_one_a_package_index_accepts() -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+", zenspark.__version__)


def test_build_kind_is_compiled_or_interpreted() -> None:
    assert zenspark.build_kind() in ("compiled", "interpreted")


@pytest.mark.parametrize("name", [name for name in zenspark.__all__ if not name.startswith("_")])
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(zenspark, name) is not None
    assert name in dir(zenspark)


def test_type_checkers_see_every_name() -> None:
    """They do not run the package, so they need the imports that it does not do."""
    tree = ast.parse(inspect.getsource(zenspark))
    (block,) = [node for node in tree.body if isinstance(node, ast.If) and isinstance(node.body[0], ast.ImportFrom)]
    seen = {
        alias.asname: node.module for node in block.body if isinstance(node, ast.ImportFrom) for alias in node.names
    }
    homes = {name: f"zenspark.{home}" for name, home in zenspark._HOME.items()}
    assert seen == homes | dict.fromkeys(zenspark._MODULES, "zenspark")


def test_unknown_name_raises_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = zenspark.nonsense  # type: ignore[attr-defined]  # as a type checker reports, too


def test_importing_the_package_loads_none_of_it() -> None:
    script = "import sys, zenspark; print([name for name in sys.modules if name.startswith('zenspark.')])"
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert loaded.strip() == "['zenspark._build']"


# --- values: what all of them can do --------------------------------------------------------------

ZID = zenspark.ZenohId("a1b2")
ENTITY = zenspark.EntityGlobalId(ZID, 3)
STAMP = zenspark.Timestamp.parse_rfc3339("2024-07-01T13:51:12.129693Z/33")
LINK = zenspark.Link(ZID, "tcp/a:1", "tcp/b:2", interfaces=["lo"], priorities=(0, 7))
TRANSPORT = zenspark.Transport(ZID, zenspark.WhatAmI.PEER)
STACK = wire.TimestampStack(5, (wire.TimestampRecord(0x81, b"x"),))
HEAD = SampleHeader(
    zenspark.KeyExpr("a/b"), encoding=wire.Encoding(4), timestamp_id=STAMP.to_wire().id, source=ENTITY.to_wire()
)
SAMPLE = zenspark.Sample(HEAD, b"payload", 7, b"attached", 9)

VALUES: dict[str, tuple[Any, Any]] = {
    "Config": (zenspark.Config(), zenspark.Config.from_json5("{mode: 'client'}")),
    "ConnectionStatus": (
        zenspark.ConnectionStatus(["tcp/a:1"], False, "cannot connect"),
        zenspark.ConnectionStatus(["tcp/a:1"], True),
    ),
    "Declaration": (
        zenspark.Declaration("token", "a/b", ZID, zenspark.WhatAmI.PEER),
        zenspark.Declaration("queryable", "a/b", ZID, zenspark.WhatAmI.PEER),
    ),
    "Encoding": (zenspark.Encoding("text/plain;a"), zenspark.Encoding.TEXT_PLAIN),
    "EntityGlobalId": (ENTITY, zenspark.EntityGlobalId(ZID, 4)),
    "Hello": (
        zenspark.Hello.from_wire(
            messages.Hello(version=9, whatami=wire.WhatAmI.PEER, zid=wire.ZenohId(1), locators=())
        ),
        zenspark.Hello.from_wire(
            messages.Hello(version=9, whatami=wire.WhatAmI.PEER, zid=wire.ZenohId(2), locators=())
        ),
    ),
    "KeyExpr": (zenspark.KeyExpr("a/*"), zenspark.KeyExpr("a/**")),
    "Link": (LINK, zenspark.Link(ZID, "tcp/a:1", "tcp/b:3")),
    "LinkCounters": (
        zenspark.LinkCounters(ZID, 7, {"interrupted": 1}, {}),
        zenspark.LinkCounters(ZID, 7, {}, {"congestion": 1}),
    ),
    "LinkEvent": (
        zenspark.LinkEvent(zenspark.SampleKind.PUT, LINK),
        zenspark.LinkEvent(zenspark.SampleKind.DELETE, LINK),
    ),
    "MatchingStatus": (zenspark.MatchingStatus(True), zenspark.MatchingStatus(False)),
    "NTP64": (zenspark.NTP64(1, 2), zenspark.NTP64(1, 3)),
    "NeighbourEvent": (
        zenspark.NeighbourEvent(zenspark.SampleKind.PUT, TRANSPORT, LINK),
        zenspark.NeighbourEvent(zenspark.SampleKind.DELETE, TRANSPORT, LINK),
    ),
    "Parameters": (zenspark.Parameters("a=1;b"), zenspark.Parameters("a=2;b")),
    "QueryConsolidation": (
        zenspark.QueryConsolidation.AUTO,
        zenspark.QueryConsolidation(zenspark.ConsolidationMode.NONE),
    ),
    "Reply": (zenspark.Reply(SAMPLE, ENTITY), zenspark.Reply(zenspark.ReplyError(zenspark.ZBytes(b"x")))),
    "ReplyError": (zenspark.ReplyError(zenspark.ZBytes(b"x")), zenspark.ReplyError(zenspark.ZBytes(b"y"))),
    "Sample": (SAMPLE, zenspark.Sample(HEAD, b"other")),
    "Selector": (zenspark.Selector("a?x=1"), zenspark.Selector("a?x=2")),
    "SourceInfo": (zenspark.SourceInfo(ENTITY, 1), zenspark.SourceInfo(ENTITY, 2)),
    "Timestamp": (STAMP, zenspark.Timestamp.parse_rfc3339("2024-07-01T13:51:12.129693Z/34")),
    "TimestampContext": (
        zenspark.TimestampContext(ZID, zenspark.WhatAmI.PEER),
        zenspark.TimestampContext(ZID, zenspark.WhatAmI.ROUTER),
    ),
    "TimestampId": (STAMP.get_id(), zenspark.TimestampId(b"ab")),
    "TimestampInstrumentation": (
        zenspark.TimestampInstrumentationBuilder().set_send(True).build(),
        zenspark.TimestampInstrumentationBuilder().set_route(True).build(),
    ),
    "TimestampStack": (
        zenspark.TimestampStack.from_wire(STACK),
        zenspark.TimestampStack.from_wire(wire.TimestampStack(5, ())),
    ),
    "TimestampStackRecord": (
        zenspark.TimestampStackRecord.from_wire(wire.TimestampRecord(0x81, b"x")),
        zenspark.TimestampStackRecord.from_wire(wire.TimestampRecord(0x81, b"y")),
    ),
    "Transport": (TRANSPORT, zenspark.Transport(ZID, zenspark.WhatAmI.ROUTER)),
    "TransportEvent": (
        zenspark.TransportEvent(zenspark.SampleKind.PUT, TRANSPORT),
        zenspark.TransportEvent(zenspark.SampleKind.DELETE, TRANSPORT),
    ),
    "WhatAmIMatcher": (zenspark.WhatAmIMatcher("peer"), zenspark.WhatAmIMatcher("router|peer")),
    "ZBytes": (zenspark.ZBytes(b"ab"), zenspark.ZBytes(b"cd")),
    "ZenohId": (ZID, zenspark.ZenohId("a1")),
}
LIVE_OBJECTS = {
    "CancellationToken",
    "Handler",
    "LinkEventsListener",
    "Liveliness",
    "LivelinessToken",
    "MatchingListener",
    "NeighbourEventsListener",
    "Publisher",
}
LIVE_OBJECTS |= {
    "Querier",
    "Query",
    "Queryable",
    "Scout",
    "Session",
    "SessionInfo",
    "Subscriber",
    "TransportEventsListener",
}
LIVE_OBJECTS |= {"ArrowBatches", "TimestampInstrumentationBuilder"}  # how something is to be made
CLASSES = {name for name in zenspark.__all__ if isinstance(getattr(zenspark, name), type)}
ENUMS = {name for name in CLASSES if issubclass(getattr(zenspark, name), enum.Enum)}
ERRORS = {name for name in CLASSES if issubclass(getattr(zenspark, name), zenspark.ZError)}
CHANGES = {"Config", "Parameters", "Selector"}
HOLD_LISTS = {"ConnectionStatus", "Link", "LinkCounters", "LinkEvent", "NeighbourEvent"}
"""Values with lists or dictionaries in them, which have no hash."""


def test_every_class_is_a_value_an_enumeration_an_error_or_a_live_object() -> None:
    assert set(VALUES) == CLASSES - ENUMS - ERRORS - LIVE_OBJECTS


@pytest.mark.parametrize("name", sorted(VALUES))
def test_every_value_pickles_copies_and_compares(name: str) -> None:
    value, other = VALUES[name]
    for again in (pickle.loads(pickle.dumps(value)), copy.copy(value), copy.deepcopy(value)):
        assert type(again) is type(value)
        assert again == value
        assert again != other
        assert again != 3
        assert repr(again) == repr(value)
        if name not in CHANGES | HOLD_LISTS:
            assert hash(again) == hash(value)
            assert {again: 1}[value] == 1


@pytest.mark.parametrize("name", sorted(set(VALUES) - CHANGES))
def test_values_never_change(name: str) -> None:
    value = VALUES[name][0]
    for attribute in ("zid", "payload", "nonsense"):
        with pytest.raises((AttributeError, TypeError)):
            setattr(value, attribute, 3)


@pytest.mark.parametrize("name", sorted(ENUMS))
def test_enumeration_members_pickle_and_hash(name: str) -> None:
    kind = getattr(zenspark, name)
    for member in kind:
        assert kind(member.value) is kind[member.name] is pickle.loads(pickle.dumps(member))
        assert {member: 1}[member] == 1
        assert int(member) == member.value


@pytest.mark.skipif(
    build_kind() == "interpreted" and sys.version_info < (3, 12), reason="interpreted, Python 3.11 lends no memory"
)
def test_a_payload_is_seen_without_a_copy() -> None:
    raw = bytes(1000)
    view = memoryview(zenspark.Sample(HEAD, raw).payload)
    assert view.readonly
    assert pa.py_buffer(view).address == pa.py_buffer(raw).address


def test_every_recv_has_a_timeout_parameter() -> None:
    for name in sorted(LIVE_OBJECTS):
        recv = getattr(getattr(zenspark, name), "recv", None)
        assert recv is None or "timeout" in inspect.signature(recv).parameters


# --- what `help` shows ----------------------------------------------------------------------------

PUBLIC = dict(public_objects())


def undocumented(name: str, found: Any) -> list[str]:  # noqa: ANN401 - a class or function
    """What the docstring of a public class or function, and of its methods, leaves out."""
    text = inspect.getdoc(found)
    if not text or not text.split("\n", 1)[0].endswith((".", ":")):
        return [f"{name} has no summary"]
    if not inspect.isclass(found):
        return [f"{name}({each})" for each in parameters(found) if each not in documented(text)]
    missing = [f"{name}.{each}" for each in undocumented_members(found)]
    if found.__doc__ is None:
        missing.append(f"{name} has only the docstring of its base class")
    if not issubclass(found, enum.Enum):
        described = documented(text, "Args|Attributes") | documented(inspect.getdoc(found.__init__))
        missing += [f"{name}({each})" for each in parameters(found) if each not in described]
    return missing


def undocumented_members(owner: type) -> list[str]:
    missing: list[str] = []
    fields = documented(inspect.getdoc(owner), "Args|Attributes")
    for name, member in public_members(owner):
        text = inspect.getdoc(member)
        if not text:  # a field, which has no place for one, is described by the class
            missing += [] if name in fields else [name]
        elif not isinstance(member, property) and not inspect.isdatadescriptor(member):
            missing += [f"{name}({each})" for each in parameters(getattr(owner, name)) if each not in documented(text)]
    return missing


@pytest.mark.parametrize("name", sorted(PUBLIC))
def test_docstring_names_every_parameter(name: str) -> None:
    assert undocumented(name, PUBLIC[name]) == []


def test_missing_documentation_is_found() -> None:
    class Sloppy:
        """A class."""

        def __init__(self, size: int) -> None:
            self.size = size

        def grow(self, by: int, to: int) -> None:
            """Grow.

            Args:
                by: How much.
            """

        @property
        def volume(self) -> int:
            return self.size**3

    Sloppy.__module__ = "zenspark.sloppy"
    assert undocumented("Sloppy", Sloppy) == ["Sloppy.grow(to)", "Sloppy.volume", "Sloppy(size)"]


ENUMERATIONS = sorted(name for name, found in PUBLIC.items() if inspect.isclass(found) and issubclass(found, enum.Enum))


@pytest.mark.parametrize("name", ENUMERATIONS)
def test_every_member_of_an_enumeration_is_documented(name: str) -> None:
    """`help` shows the docstring below each member, and so do editors."""
    members = {member.name for member in PUBLIC[name]}
    assert members
    assert members <= documented(inspect.getdoc(PUBLIC[name]), "Attributes")
    assert members <= set(from_source(PUBLIC[name]))


@pytest.mark.parametrize("method", sorted(INTERNAL))
def test_methods_for_other_layers_are_marked_as_internal(method: str) -> None:
    owners = [found for found in PUBLIC.values() if inspect.isclass(found) and hasattr(found, method)]
    (text,) = {inspect.getdoc(getattr(owner, method)) for owner in owners}
    assert text is not None
    assert text.startswith("Internal: ")


FUNCTIONS = dict(public_functions())
CALLED_BY_SESSIONS = frozenset(
    [
        "Channel.next_item",
        "Channel.take_nowait",
        "Channel.use_wakeup",
        "HistoryConfig.parameters",
        "LinkCounters.from_totals",
    ]
)
"""Public functions that programs do not call: the session does, with objects of classes that cannot be imported."""


def missing_sections(found: Any) -> list[str]:  # noqa: ANN401 - a class or function
    """Return the sections that a docstring lacks: what is returned and raised, and an example."""
    text, required = inspect.getdoc(found) or "", ["Example"]
    if inspect.isclass(found):
        text += "\n\n" + (inspect.getdoc(found.__init__) or "") if "__init__" in vars(found) else ""
    elif returns(found):
        required.append("Returns")
    return [
        section for section in (*required, *(["Raises"] if raises(found) else [])) if not has_section(text, section)
    ]


@pytest.mark.parametrize("name", sorted(PUBLIC | FUNCTIONS))
def test_docstring_has_result_errors_and_example(name: str) -> None:
    assert missing_sections((PUBLIC | FUNCTIONS)[name]) == []


def test_functions_that_sessions_call_exist() -> None:
    assert {home_of(function)[1] for function in FUNCTIONS.values()} >= CALLED_BY_SESSIONS


def test_missing_sections_are_found() -> None:
    text = inspect.getdoc(zenspark.KeyExpr.intersects) or ""
    summary = text.partition("\n")[0]

    def intersects() -> None: ...

    intersects.__wrapped__ = zenspark.KeyExpr.intersects  # type: ignore[attr-defined]
    for docstring, expected in (
        (text, []),
        (text.replace("Returns:", "Result:"), ["Returns"]),
        (summary, ["Example", "Returns", "Raises"]),
    ):
        intersects.__doc__ = docstring
        assert missing_sections(intersects) == expected


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (zenspark.Config.from_env, True),  # itself
        (zenspark.KeyExpr.autocanonize, True),  # the constructor that it calls
        (zenspark.Session.get, True),  # a method of the runtime
        (zenspark.SourceInfo, True),
        (zenspark.ZBytes.to_bytes, False),
        (zenspark.Session.zid, False),
    ],
)
def test_functions_that_raise_are_recognized(found: Any, expected: bool) -> None:  # noqa: ANN401
    assert raises(found) is expected


@pytest.mark.parametrize("name", sorted(PUBLIC | FUNCTIONS))
def test_every_class_and_function_has_a_signature(name: str) -> None:
    found = (PUBLIC | FUNCTIONS)[name]
    assert takes_any_arguments(found) or inspect.signature(found) is not None


def test_help_shows_how_compiled_classes_are_made() -> None:
    assert "ZBytes(obj: 'IntoZBytes | None' = None) -> 'None'" in pydoc.plain(pydoc.render_doc(zenspark.ZBytes))
    assert "Sample(header: 'SampleHeader', payload: 'bytes', ntp64: " in pydoc.plain(pydoc.render_doc(zenspark.Sample))
    assert parameters(zenspark.Handler) == ["capacity", "resume", "keep"]


# --- what can be imported -------------------------------------------------------------------------

IMPORTABLE = {
    found
    for module in map(importlib.import_module, MODULES)
    for found in (getattr(module, name) for name in module.__all__)
    if inspect.isclass(found) and found.__module__.startswith("zenspark.")
}
NOT_IMPORTED = {
    "BoundHandler": "made by a handler, for the session",
    "Settings": "the configuration as the session reads it: programs read its attributes",
    "BindableHandler": "a protocol: programs give an object with its method",
    "Entity": "the base class of what a session declares: programs give one of these",
}
ALIASES_NOT_IMPORTED = {"Resume": "the session gives it to a handler"}
CALLED_BY_PROGRAMS = {name: found for name, found in FUNCTIONS.items() if home_of(found)[1] not in CALLED_BY_SESSIONS}
PROPERTIES = {
    f"{name}.{property_name}": member
    for name, found in PUBLIC.items()
    if inspect.isclass(found)
    for property_name, member in public_members(found)
    if isinstance(member, property)
}


@pytest.mark.parametrize("name", sorted(CALLED_BY_PROGRAMS | PROPERTIES))
def test_classes_in_signatures_can_be_imported(name: str) -> None:
    named = signature_classes((CALLED_BY_PROGRAMS | PROPERTIES)[name])
    assert {kind.__name__ for kind in named - IMPORTABLE} <= set(NOT_IMPORTED)


@pytest.mark.parametrize("name", sorted(CALLED_BY_PROGRAMS))
def test_aliases_in_signatures_can_be_imported(name: str) -> None:
    assert signature_aliases(CALLED_BY_PROGRAMS[name]) <= {*zenspark.__all__, *ALIASES_NOT_IMPORTED}


def test_aliases_in_signatures_are_found() -> None:
    assert signature_aliases(zenspark.Session.put) == {"IntoKeyExpr", "IntoZBytes"}
    assert signature_aliases(zenspark.aio.Session.get) >= {"IntoCallback", "IntoChannel", "IntoKeyExpr"}
    assert signature_aliases(zenspark.open) == {"TimestampCallback"}


def test_aliases_are_types_when_the_program_runs() -> None:
    assert isinstance(b"", zenspark.IntoZBytes)
    assert isinstance(zenspark.ZBytes(b""), zenspark.IntoZBytes)
    assert not isinstance(3, zenspark.IntoZBytes)
    assert isinstance(pa.table({}), zenspark.BatchOrTable)
    assert zenspark.IntoKeyExpr == zenspark.KeyExpr | str


def test_classes_in_signatures_are_found() -> None:
    assert signature_classes(zenspark.SessionInfo.declarations) == {zenspark.Declaration}
    assert signature_classes(zenspark.SessionInfo.declare_neighbour_events_listener) >= {
        zenspark.NeighbourEventsListener,
        zenspark.NeighbourEvent,  # in its overloads only
    }
    assert zenspark.QueryTarget in signature_classes(zenspark.Session.get)  # in its dictionary of keyword arguments
    assert signature_classes(inspect.getattr_static(zenspark.Session, "info")) == {zenspark.SessionInfo}
    assert {kind.__name__ for kind in signature_classes(zenspark.Config.settings) - IMPORTABLE} == {"Settings"}


@pytest.mark.parametrize("name", sorted(PUBLIC | FUNCTIONS))
def test_errors_in_docstrings_can_be_imported(name: str) -> None:
    found = (PUBLIC | FUNCTIONS)[name]
    texts = [inspect.getdoc(found), inspect.getdoc(found.__init__) if inspect.isclass(found) else None]
    named = {error for text in texts for error in documented(text, "Raises")}
    assert named <= {kind.__name__ for kind in IMPORTABLE} | set(dir(builtins))
    assert named & {kind.__name__ for kind in IMPORTABLE} <= set(dir(zenspark)) | set(dir(zenspark.ext))


@pytest.mark.parametrize("path", ["handlers.channel.ChannelClosed", "handlers.channel.ReceiveTimeout"])
def test_errors_are_imported_from_former_modules(path: str) -> None:
    module, _, name = path.rpartition(".")
    assert getattr(importlib.import_module(f"zenspark.{module}"), name) is getattr(zenspark.errors, name)


def test_errors_are_an_attribute_of_the_package() -> None:
    script = "import zenspark; print(zenspark.errors.SessionClosed is zenspark.SessionClosed)"
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, check=True).stdout == b"True\n"


# --- examples -------------------------------------------------------------------------------------

EXAMPLES = dict(examples())
GIVEN = {"zenspark": zenspark} | {name: getattr(zenspark.ext, name) for name in zenspark.ext.__all__}
"""The names that examples use without an import."""
NOT_RUN = re.compile(r"zenspark\.(open|scout|aio|install_as_zenoh|(try_)?init_log_from_env)")
"""What the examples of values do not call: it opens sockets, or changes this process."""
RUN = [
    name
    for name, lines in EXAMPLES.items()
    if not NOT_RUN.search(source := "".join(line.source for line in lines))
    and "await" not in source
    and free_names(source) <= {*GIVEN, *dir(builtins)}
]
VALUES_WITH_EXAMPLES = [
    "Config",
    "Encoding",
    "KeyExpr",
    "NTP64",
    "Parameters",
    "Selector",
    "Timestamp",
    "WhatAmIMatcher",
    "ZBytes",
]


@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_example_is_valid_python(name: str) -> None:
    source = "".join(line.source for line in EXAMPLES[name])
    compile(source, name, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


def test_examples_of_values_and_serialization_are_run() -> None:
    values = {name.split(".")[1] for name in RUN if name.count(".") == 2 and name.startswith("zenspark.")}
    assert set(VALUES_WITH_EXAMPLES) <= values
    assert {"zenspark.ext.z_serialize", "zenspark.ext.z_deserialize", "zenspark.ext.Int8"} <= set(RUN)


@pytest.mark.parametrize("name", sorted(RUN))
def test_docstring_example_prints_its_output(name: str) -> None:
    lines: list[str] = []
    test = doctest.DocTest(EXAMPLES[name], dict(GIVEN), name, None, None, None)
    doctest.DocTestRunner(verbose=False).run(test, out=lines.append)
    assert "".join(lines) == ""


def test_help_shows_signature_defaults_errors_and_example() -> None:
    shown = pydoc.plain(pydoc.render_doc(zenspark.Session.put))
    for text in ("put(self, key_expr: ", "priority: Priority of the message", "DATA by default", "Raises:", "Example:"):
        assert text in shown
