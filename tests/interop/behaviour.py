"""What a package with the names of eclipse-zenoh does: run with its name, it prints the outcome of every case as JSON.

Each case is a function of the package; what it returns is text, numbers and lists of them, errors by their kind. Cases
in which zenspark means to differ are left out: it accepts more, prints values as Python does, and an error about the
use of something is a ZError even where the other one has an AttributeError.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

Api = Any
TIMEOUT_SECONDS = 20.0
GRACE_SECONDS = 0.5
"""Seconds in which something that must not happen would."""
CASES: dict[str, Callable[[Api], object]] = {}


def case(function: Callable[[Api], object]) -> Callable[[Api], object]:
    CASES[function.__name__] = function
    return function


# --- tools ----------------------------------------------------------------------------------------


def outcome(z: Api, call: Callable[[], object]) -> object:
    """What a call gives, or the kind of its error."""
    try:
        found = call()
    except Exception as error:
        kinds = (z.ZError, TypeError, ValueError, OverflowError, AttributeError, KeyError, IndexError)
        return next((kind.__name__ for kind in kinds if isinstance(error, kind)), type(error).__name__)
    return found if isinstance(found, str | int | float | bool | list | None) else f"a {type(found).__name__}"


def outcomes(z: Api, *calls: Callable[[], object]) -> list[object]:
    return [outcome(z, call) for call in calls]


def config(z: Api, **options: object) -> Any:  # noqa: ANN401 - the package's own
    made = z.Config()
    settings = {
        "scouting__multicast__enabled": False,
        "listen__endpoints": [],
        "transport__shared_memory__enabled": False,
    }
    for name, value in {**settings, **options}.items():
        made.insert_json5(name.replace("__", "/"), json.dumps(value))
    return made


def pair(z: Api) -> tuple[Any, Any]:
    """Two sessions that know each other."""
    place = f"unixsock-stream/{tempfile.mkdtemp()}/socket"
    one = z.open(config(z, listen__endpoints=[place]))
    other = z.open(config(z, connect__endpoints=[place]))
    until(lambda: one.info.peers_zid() and other.info.peers_zid())
    return one, other


def until(is_so: Callable[[], object], timeout: float = TIMEOUT_SECONDS) -> bool:
    deadline = time.monotonic() + timeout
    while not is_so():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def text(payload: Any) -> str | None:  # noqa: ANN401 - the package's own
    return None if payload is None else str(payload.to_string())


# --- arguments ------------------------------------------------------------------------------------


@case
def arguments_of_put(z: Api) -> object:
    session = z.open(config(z))
    wrong: list[dict[str, Any]] = [
        {name: value}
        for name in ("encoding", "congestion_control", "priority", "express", "timestamp", "allowed_destination")
        for value in (3, "x", 1.5)
        if (name, value) != ("encoding", "x")
    ]
    wrong += [{"source_info": 3}, {"timestamp_instrumentation": 3}, {"attachment": 3}, {"nonsense": 3}]
    return outcomes(
        z,
        *(lambda options=options: session.put("a", "x", **options) for options in wrong),
        *(lambda payload=payload: session.put("a", payload) for payload in (3, None, 1.5, [1], {"a": 1}, b"", "", "é")),
        *(lambda key=key: session.put(key, "x") for key in ("//", "", "a/*", "a/**/**", 3, z.KeyExpr("a"))),
        lambda: session.put("a"),
        lambda: session.put("a", "x", "text/plain"),
        lambda: session.put(key_expr="a", payload="x"),
        lambda: session.delete("a", "x"),
        lambda: session.delete(key_expr="a", attachment="x", priority=z.Priority.DATA),
    )


@case
def arguments_of_declarations(z: Api) -> object:
    session = z.open(config(z))
    return outcomes(
        z,
        *(lambda key=key: session.declare_subscriber(key) for key in ("//", "", 3)),
        *(lambda handler=handler: session.declare_subscriber("a", handler) for handler in (3, (1, 2), (print,))),
        lambda: session.declare_subscriber("a", allowed_origin=3),
        lambda: session.declare_publisher("a", encoding=3),
        lambda: session.declare_publisher("a", reliability=3),
        lambda: session.declare_publisher("a/*").put("x"),
        lambda: session.declare_queryable("a", complete=3),
        lambda: session.declare_queryable("a", allowed_origin="x"),
        lambda: session.declare_querier("a", timeout="x"),
        lambda: session.declare_querier("a?x=1"),
        lambda: session.liveliness().declare_token("//"),
        lambda: session.liveliness().declare_subscriber("a", history=1),
        lambda: session.liveliness().get("a", timeout="x"),
        lambda: str(session.declare_keyexpr("a/b")),
        lambda: session.undeclare(session.declare_keyexpr("a/b")),
        lambda: session.undeclare(z.KeyExpr("never/declared")),
        lambda: session.declare_keyexpr("//"),
        lambda: session.info.declare_link_events_listener(history=3),
        lambda: z.open(3),
        lambda: z.scout(what=3),
        lambda: z.scout(what="nonsense"),
        lambda: z.init_log_from_env_or(3),
        lambda: z.init_log_from_env_or(),
    )


@case
def undeclared_key_expressions(z: Api) -> object:
    session = z.open(config(z))
    first, second = session.declare_keyexpr("a"), session.declare_keyexpr("b")
    return outcomes(
        z,
        lambda: session.undeclare(first),
        lambda: session.undeclare(first),
        lambda: session.put(first, "x"),
        lambda: session.declare_subscriber(first),
        lambda: session.undeclare(z.KeyExpr("c")),
        lambda: session.undeclare(second),
    )


@case
def arguments_of_get(z: Api) -> object:
    session = z.open(config(z))
    times = ("x", -1, 0, 1.5, float("nan"), True)  # without end, ours may wait
    names = ("target", "consolidation", "accept_replies", "priority", "allowed_destination", "cancellation_token")
    return outcomes(
        z,
        *(lambda timeout=timeout: session.get("a", timeout=timeout) for timeout in times),
        *(lambda name=name: session.get("a", **{name: 3}) for name in names),
        *(lambda key=key: session.get(key) for key in ("//", 3, "a?x=1", z.Selector("a"), z.KeyExpr("a"))),
        lambda: session.get("a", payload=3),
        lambda: session.get("a", handler=3),
        lambda: session.get("a", z.handlers.FifoChannel(0)),
        lambda: session.get("a", (print, "mine")),
        lambda: session.get("a", print),
    )


@case
def configuration_files(z: Api) -> object:
    where = Path(tempfile.mkdtemp())
    files = {
        "a.json5": "{mode: 'client', /* ! */ connect: {endpoints: ['tcp/1.2.3.4:5']},}",
        "a.yaml": "mode: client\nconnect:\n  endpoints:\n    - tcp/1.2.3.4:5\n",
        "a.yml": "mode: router\n",
        "a.json": '{"mode": "router"}',
        "a.txt": '{"mode": "router"}',
        "half.json5": "{mode:",
        "wrong.json5": '{mode: "x"}',
    }
    for name, content in files.items():
        (where / name).write_text(content)

    def from_env(name: str) -> object:
        os.environ["ZENOH_CONFIG"] = str(where / name)
        try:
            return z.Config.from_env().get_json("mode")
        finally:
            del os.environ["ZENOH_CONFIG"]

    names = [*files, "absent.json5"]
    return outcomes(
        z,
        *(lambda name=name: z.Config.from_file(str(where / name)).get_json("connect/endpoints") for name in names),
        *(lambda name=name: z.Config.from_file(where / name).get_json("mode") for name in names),
        *(lambda name=name: from_env(name) for name in names),
        lambda: z.Config.from_env(),
        lambda: z.Config().from_env(),
        lambda: z.Config.from_file(3),
        lambda: z.Config.from_json5(3),
        lambda: z.Config().insert_json5("mode"),
        lambda: z.Config().insert_json5("mode", 3),
        lambda: z.Config().insert_json5("connect/endpoints", ["tcp/a:1"]),
        lambda: z.Config().get_json("connect/nothing"),
    )


# --- life -----------------------------------------------------------------------------------------


@case
def entities_that_ended(z: Api) -> object:
    session = z.open(config(z))
    publisher, subscriber = session.declare_publisher("a"), session.declare_subscriber("a")
    queryable, querier = session.declare_queryable("a"), session.declare_querier("a")
    token, listener = session.liveliness().declare_token("a"), publisher.declare_matching_listener()
    handler = subscriber.handler
    session.put("a", "1")
    found = []
    for entity in (listener, publisher, subscriber, queryable, querier, token):
        found += outcomes(z, entity.undeclare, entity.undeclare)
    found += outcomes(z, lambda: publisher.put("x"), lambda: publisher.key_expr, publisher.__enter__)
    found += outcomes(
        z, subscriber.recv, subscriber.try_recv, lambda: subscriber.handler, lambda: next(iter(subscriber))
    )
    found += outcomes(z, queryable.recv, querier.get, lambda: querier.key_expr, listener.try_recv)
    found += outcomes(z, lambda: text(handler.recv().payload), handler.recv, handler.try_recv, lambda: list(handler))
    return found


@case
def a_closed_session(z: Api) -> object:
    session = z.open(config(z))
    publisher, subscriber = session.declare_publisher("a"), session.declare_subscriber("a")
    callback, queryable = session.declare_subscriber("a", print), session.declare_queryable("a")
    querier, token, info = session.declare_querier("a"), session.liveliness().declare_token("a"), session.info
    handler = subscriber.handler
    return outcomes(
        z,
        session.is_closed,
        session.close,
        session.is_closed,
        session.close,
        lambda: session.put("a", "1"),
        lambda: session.delete("a"),
        lambda: session.get("a"),
        *(
            lambda declare=declare: declare("a")
            for declare in (
                session.declare_subscriber,
                session.declare_publisher,
                session.declare_queryable,
                session.declare_querier,
                session.declare_keyexpr,
                session.liveliness().declare_token,
                session.liveliness().get,
            )
        ),
        lambda: publisher.put("x"),
        publisher.delete,
        querier.get,
        subscriber.recv,
        subscriber.try_recv,
        lambda: list(subscriber),
        handler.try_recv,
        queryable.recv,
        lambda: publisher.matching_status.matching,
        lambda: str(publisher.key_expr),
        info.peers_zid,
        info.routers_zid,
        info.links,
        info.transports,
        info.declare_link_events_listener,
        lambda: str(session.zid()) == str(info.zid()),
        session.new_timestamp,
        *(each.undeclare for each in (publisher, subscriber, callback, queryable, querier, token)),
        subscriber.undeclare,
        session.__enter__,
        lambda: session.__exit__(None, None, None),
    )


@case
def dropped_entities(z: Api) -> object:
    """A callback lives on, what has a channel or an object of its own ends."""
    session = z.open(config(z))
    found: list[object] = []
    for handler in (None, lambda _: None, (lambda _: None, "mine"), z.handlers.Callback(lambda _: None)):
        publisher = session.declare_publisher("a")
        subscriber = session.declare_subscriber("a", handler)
        found.append(publisher.matching_status.matching)
        del subscriber
        gc.collect()
        found.append(not until(lambda: not publisher.matching_status.matching, GRACE_SECONDS))  # noqa: B023 - called at once
        publisher.undeclare()
        session.close()
        session = z.open(config(z))
    return found


@case
def drop_callbacks(z: Api) -> object:
    session = z.open(config(z))
    found: list[str] = []
    sample_callback = z.handlers.Callback(
        lambda sample: found.append(text(sample.payload) or ""), lambda: found.append("dropped")
    )
    subscriber = session.declare_subscriber("a", sample_callback)
    session.put("a", "1")
    until(lambda: found)
    subscriber.undeclare()
    until(lambda: len(found) > 1)
    reply_callback = z.handlers.Callback(lambda _: found.append("reply"), lambda: found.append("end"))
    found.append(str(outcome(z, lambda: session.get("nobody", reply_callback))))
    until(lambda: "end" in found)
    return sorted(found)


@case
def with_blocks(z: Api) -> object:
    with z.open(config(z)) as session:
        with session.declare_subscriber("a") as subscriber, session.declare_publisher("a") as publisher:
            publisher.put("1")
            first = text(subscriber.recv().payload)
        after = outcomes(z, subscriber.recv, lambda: publisher.put("2"))
    return [first, after, session.is_closed()]


@case
def failing_callbacks(z: Api) -> object:
    session = z.open(config(z))
    found: list[str | None] = []

    def fail(sample: Any) -> None:  # noqa: ANN401 - the package's own
        found.append(text(sample.payload))
        raise ValueError

    subscriber = session.declare_subscriber("a", fail)
    session.put("a", "1")
    session.put("a", "2")
    until(lambda: len(found) == 2)
    subscriber.undeclare()
    return found


# --- what arrives ---------------------------------------------------------------------------------


@case
def samples(z: Api) -> object:
    one, other = pair(z)
    subscriber = other.declare_subscriber("a/**")
    publisher = one.declare_publisher("a/x")
    until(lambda: publisher.matching_status.matching)
    qualities = {"priority": z.Priority.DATA_HIGH, "congestion_control": z.CongestionControl.BLOCK, "express": True}
    one.put("a/x", "v", encoding="text/plain;utf-8", attachment="with", timestamp=one.new_timestamp(), **qualities)
    one.put("a/x", b"", source_info=z.SourceInfo(publisher.id, 7))
    one.delete("a/x", attachment=b"why")
    found: list[object] = []
    for sample in [subscriber.recv() for _ in range(3)]:
        found += [str(sample.key_expr), text(sample.payload), str(sample.kind), str(sample.encoding)]
        found += [str(sample.priority), str(sample.congestion_control), sample.express, text(sample.attachment)]
        found += [sample.timestamp is None, sample.source_info and sample.source_info.source_sn, sample.timestamp_stack]
        found += outcomes(z, partial(setattr, sample, "payload", b""), partial(getattr, sample, "nothing"))
    return found


@case
def localities(z: Api) -> object:
    one, other = pair(z)
    found: list[str] = []
    kinds = [z.Locality.ANY, z.Locality.REMOTE, z.Locality.SESSION_LOCAL]
    for name, session in (("one", one), ("other", other)):
        for origin in kinds:

            def on_sample(sample: Any, label: str = f"{name} {origin}") -> None:  # noqa: ANN401 - the package's own
                found.append(f"{label} {text(sample.payload)}")

            session.declare_subscriber("a", on_sample, allowed_origin=origin)
    publisher = one.declare_publisher("a", allowed_destination=z.Locality.REMOTE)
    until(lambda: publisher.matching_status.matching)
    for destination in (None, *kinds):
        one.put("a", str(destination), allowed_destination=destination)
    until(lambda: len(found) == 12)
    return sorted(found)


@case
def queries(z: Api) -> object:
    one, other = pair(z)
    seen: list[object] = []

    def on_query(query: Any) -> None:  # noqa: ANN401 - the package's own
        with query:
            seen.extend([str(query.key_expr), str(query.selector), str(query.parameters), text(query.payload)])
            seen.extend([str(query.encoding), text(query.attachment), str(query.accepts_replies())])
            match str(query.parameters).partition(";")[0]:
                case "ok":
                    query.reply(
                        query.key_expr, "v", encoding="text/plain", attachment="at", timestamp=one.new_timestamp()
                    )
                case "delete":
                    query.reply_del("q/a")
                case "error":
                    query.reply_err("bad", encoding="text/plain")
                case "wrong":
                    seen.extend(
                        outcomes(
                            z,
                            lambda: query.reply("other/key", "x"),
                            lambda: query.reply("//", "x"),
                            lambda: query.reply("q/a", 3),
                            lambda: query.reply("q/a"),
                            lambda: query.reply("q/a", "x", encoding=3),
                            lambda: query.reply("q/a", "x", timestamp=3),
                            lambda: query.reply_err(3),
                        )
                    )
        late = (lambda: query.reply("q/a", "x"), lambda: query.reply_err("x"), query.drop, lambda: query.payload)
        seen.extend(outcomes(z, *late))

    queryable = one.declare_queryable("q/**", on_query)
    until(lambda: list(other.get("q/a?ok")))
    seen.clear()
    found: list[object] = []
    options: list[dict[str, Any]] = [{}, {"payload": "p"}, {"payload": "p", "encoding": "text/plain"}]
    options += [{"encoding": "text/plain"}, {"attachment": "a"}, {"accept_replies": z.ReplyKeyExpr.ANY}]
    for parameters in ("ok", "delete", "error", "wrong", "none"):
        for more in options:
            for reply in other.get(f"q/a?{parameters}", **more):
                ok, err = reply.ok, reply.err
                found += [type(reply.result).__name__, reply.replier_id is None]
                found += [] if ok is None else [str(ok.kind), text(ok.payload), str(ok.encoding), text(ok.attachment)]
                found += [] if ok is None else [ok.timestamp is None, str(ok.priority), ok.express]
                found += [] if err is None else [text(err.payload), str(err.encoding)]
            found.append("end")
    queryable.undeclare()
    return [found, seen]


@case
def queries_that_time_out(z: Api) -> object:
    one, other = pair(z)
    queryable = one.declare_queryable("q")
    querier = other.declare_querier("q")
    until(lambda: querier.matching_status.matching)
    found = sorted({(text(reply.err.payload), reply.ok) for reply in other.get("q", timeout=0.1)})
    query = queryable.recv()
    return [found, *outcomes(z, lambda: query.reply("q", "late"), query.drop, lambda: query.reply("q", "later"))]


@case
def consolidation(z: Api) -> object:
    session = z.open(config(z))

    def on_query(query: Any) -> None:  # noqa: ANN401 - the package's own
        for number in range(3):
            query.reply("q/a", str(number))
        query.reply("q/b", "b")

    queryable = session.declare_queryable("q/**", on_query)
    modes = [None, *(getattr(z.ConsolidationMode, name) for name in ("AUTO", "NONE", "MONOTONIC", "LATEST"))]
    modes.append(z.QueryConsolidation(z.ConsolidationMode.NONE))
    found = [sorted(str(text(reply.ok.payload)) for reply in session.get("q/**", consolidation=mode)) for mode in modes]
    queryable.undeclare()
    return found


@case
def cancelled_queries(z: Api) -> object:
    session = z.open(config(z))
    queryable = session.declare_queryable("q")
    token = z.CancellationToken()
    replies = session.get("q", cancellation_token=token)
    found = outcomes(z, lambda: token.is_cancelled, replies.try_recv, token.cancel, lambda: token.is_cancelled)
    found += outcomes(z, replies.try_recv, lambda: list(replies), token.cancel)
    found += outcomes(z, lambda: session.get("q", cancellation_token=token))
    queryable.undeclare()
    done: list[str] = []
    entered = threading.Event()

    def slowly(_: object) -> None:
        entered.set()
        until(lambda: token.is_cancelled)  # the other thread is in cancel(), and waits for this callback
        done.append("reply")

    replying_queryable = session.declare_queryable("q", lambda query: query.reply("q", "x"))
    token = z.CancellationToken()
    callback = z.handlers.Callback(slowly, lambda: done.append("dropped"))
    session.get("q", callback, cancellation_token=token)
    entered.wait(TIMEOUT_SECONDS)
    token.cancel()
    found.extend(done)
    replying_queryable.undeclare()
    return found


@case
def timestamp_stacks(z: Api) -> object:
    one, other = pair(z)
    stacks: list[Any] = []

    def on_query(query: Any) -> None:  # noqa: ANN401 - the package's own
        stacks.append(query.timestamp_stack)
        query.reply("a", "x")

    one.declare_queryable("a", on_query)
    here, there = one.declare_subscriber("a"), other.declare_subscriber("a")
    until(lambda: list(other.get("a")))
    until(lambda: one.put("a", "x") or there.try_recv())
    stacks.clear()
    wanted = z.TimestampInstrumentationBuilder().set_send(True).set_route(True).set_receive(True).build()
    for session in (one, other):
        stacks += [reply.ok.timestamp_stack for reply in session.get("a", timestamp_instrumentation=wanted)]
    one.put("a", "end", timestamp_instrumentation=wanted)
    for subscriber in (here, there):
        stacks.append(next(sample for sample in subscriber if text(sample.payload) == "end").timestamp_stack)
    return [[str(record.point) for record in stack.records] for stack in stacks]


@case
def liveliness(z: Api) -> object:
    one, other = pair(z)
    token = one.liveliness().declare_token("l/a")
    until(lambda: list(other.liveliness().get("l/*")))
    found: list[object] = []
    for history in (None, False, True):
        subscriber = other.liveliness().declare_subscriber("l/**", history=history)
        marker = one.liveliness().declare_token(f"l/marker/{history}")
        seen: list[str] = []
        while not seen or "marker" not in seen[-1]:
            sample = subscriber.recv()
            seen.append(f"{sample.key_expr} {sample.kind} {text(sample.payload)!r} {sample.encoding}")
        found.append(seen)
        subscriber.undeclare()
        marker.undeclare()
        until(lambda: not list(other.liveliness().get("l/marker/*")))
    subscriber = other.liveliness().declare_subscriber("l/a")
    replies = [[str(reply.ok.key_expr), reply.replier_id] for reply in other.liveliness().get("l/a")]
    token.undeclare()
    found += [replies, str(subscriber.recv().kind), outcome(z, token.undeclare)]
    with one.liveliness().declare_token("l/a"):
        found.append(str(subscriber.recv().kind))
    found.append(str(subscriber.recv().kind))
    return found


@case
def neighbours(z: Api) -> object:
    one, other = pair(z)
    info = one.info
    (transport,), (link,) = info.transports(), info.links()
    found: list[object] = [
        str(transport.zid) == str(other.zid()),
        str(transport.whatami),
        transport.is_qos,
        transport.is_multicast,
    ]
    found += [link.is_streamed, link.group, link.auth_identifier, list(link.priorities), str(link.reliability)]
    found += [type(info.peers_zid()).__name__, info.routers_zid(), transport == info.transports()[0]]
    transports = info.declare_transport_events_listener(history=True)
    links, later = info.declare_link_events_listener(history=True), info.declare_link_events_listener()
    found += [str(transports.recv().kind), str(links.recv().kind), later.try_recv()]
    other.close()
    found += [str(transports.recv().kind), str(links.recv().kind), str(later.recv().kind)]
    return found + outcomes(z, links.undeclare, links.undeclare)


@case
def settings_of_publishers(z: Api) -> object:
    session = z.open(config(z))
    chosen = {"priority": z.Priority.REAL_TIME, "congestion_control": z.CongestionControl.BLOCK, "encoding": "a/b"}
    found: list[object] = []
    for publisher in (
        session.declare_publisher("a"),
        session.declare_publisher("a", reliability=z.Reliability.BEST_EFFORT, express=True, **chosen),
    ):
        found += [str(publisher.key_expr), str(publisher.encoding), str(publisher.priority)]
        found += [str(publisher.congestion_control), str(publisher.reliability), publisher.matching_status.matching]
        found += [str(publisher.id.zid) == str(session.zid())]
        found += outcomes(z, partial(setattr, publisher, "encoding", "x"))
    return found


def main(package: str) -> None:
    z = importlib.import_module(package)
    importlib.import_module(f"{package}.handlers") if package == "zenspark" else None
    found: dict[str, object] = {}
    for name, function in CASES.items():
        found[name] = "it never ended"

        def run(name: str = name, function: Callable[[Api], object] = function) -> None:
            found[name] = function(z)

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        thread.join(2 * TIMEOUT_SECONDS)
    sys.stdout.write(f"\n{json.dumps(found, default=repr)}\n")
    sys.stdout.flush()
    os._exit(0)  # without waiting for threads of a case that never ended


if __name__ == "__main__":
    main(sys.argv[1])
