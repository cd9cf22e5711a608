"""One node of a random network in a process of its own: `python -m tests.networks.worker zenspark|zenoh`.

Both packages have one API, so one program runs either. It reads a command per line on standard input, a JSON object,
and writes one line for each: `{"ok": ...}` or `{"error": "..."}`. Sessions open and close; the process stays for the
next one, because starting it takes longer than a whole scenario.

What arrives is kept as short facts until the driver collects it: a payload is compared here with what its id and size
make of it, and travels no further.
"""

from __future__ import annotations

import importlib
import json
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

Api = Any
"""A package, and whatever it makes."""
Command = dict[str, Any]

ID_SIZE = 8
"""Bytes at the start of a payload that name the message; in smaller ones the attachment does."""
GET_TIMEOUT = 10.0
"""Seconds until a query counts as unanswered."""


def payload_of(message: str, size: int) -> bytes:
    """The payload of a message, which both ends can make."""
    return (message.encode() * (size // len(message) + 1))[:size]


def name_of(member: Api) -> str:
    """The name of a member of an enum, in either package."""
    return str(member).rpartition(".")[2]


class Worker:
    """One session at a time, its entities by name, and what they received."""

    def __init__(self, api: Api) -> None:
        self.api = api
        self.session: Api = None
        self._reset()

    def _reset(self) -> None:
        self.entities: dict[str, Api] = {}
        self.keys: dict[str, Api] = {}
        self.samples: list[list[object]] = []
        self.probes: set[tuple[str, str]] = set()
        self.queries: list[list[str]] = []
        self.alive: dict[str, set[str]] = {}

    def run(self, command: Command) -> object:
        """Run a command of the driver. Returns its result as JSON."""
        return getattr(self, "do_" + command["do"])(command)

    # --- sessions

    def do_open(self, command: Command) -> str:
        config = self.api.Config()
        for key, value in command["settings"].items():
            config.insert_json5(key, json.dumps(value))
        self._reset()
        self.session = self.api.open(config)
        return str(self.session.info.zid())

    def do_close(self, _: Command) -> None:
        if self.session is not None:
            self.session.close()
        self.session = None
        self._reset()

    def do_links(self, _: Command) -> dict[str, list[str]]:
        info = self.session.info
        return {
            "routers": sorted(str(zid) for zid in info.routers_zid()),
            "peers": sorted(str(zid) for zid in info.peers_zid()),
        }

    # --- entities

    def do_declare(self, command: Command) -> None:
        for entity in command["entities"]:
            self._declare(entity)

    def _declare(self, entity: Command) -> None:
        name = entity["name"]
        self.entities[name] = getattr(self, "_declare_" + entity["kind"])(name, entity)

    def do_undeclare(self, command: Command) -> None:
        for name in command["names"]:
            self.entities.pop(name).undeclare()

    def do_flap(self, command: Command) -> None:
        """Undeclare and declare again at once, several times."""
        for _ in range(command["times"]):
            self.do_undeclare({"names": [command["entity"]["name"]]})
            self._declare(command["entity"])

    def _declare_subscriber(self, name: str, entity: Command) -> Api:
        return self.session.declare_subscriber(self._key(entity), partial(self._on_sample, name))

    def _declare_queryable(self, name: str, entity: Command) -> Api:
        replies = [self.api.KeyExpr(key) for key in entity["replies"]]
        on_query = partial(self._on_query, name, replies, entity["fails"])
        return self.session.declare_queryable(self._key(entity), on_query, complete=entity["complete"])

    def _declare_token(self, _: str, entity: Command) -> Api:
        return self.session.liveliness().declare_token(entity["key"])

    def _declare_watcher(self, name: str, entity: Command) -> Api:
        alive = self.alive[name] = set()
        on_change = partial(self._on_liveliness, alive)
        return self.session.liveliness().declare_subscriber(entity["key"], on_change, history=True)

    def _declare_publisher(self, _: str, entity: Command) -> Api:
        reliability = getattr(self.api.Reliability, entity["qos"]["reliability"])
        options = self._qos(entity["qos"])
        return self.session.declare_publisher(
            self._key(entity), reliability=reliability, encoding=entity["qos"]["encoding"], **options
        )

    def _declare_querier(self, _: str, entity: Command) -> Api:
        return self.session.declare_querier(
            self._key(entity),
            target=getattr(self.api.QueryTarget, entity["target"]),
            consolidation=getattr(self.api.ConsolidationMode, entity["consolidation"]),
            timeout=GET_TIMEOUT,
        )

    def _key(self, options: Command) -> Api:
        """A key as text, or declared to the neighbours as a number."""
        key = options["key"]
        if not options.get("is_declared"):
            return key
        if key not in self.keys:
            self.keys[key] = self.session.declare_keyexpr(key)
        return self.keys[key]

    def _qos(self, qos: Command) -> dict[str, Any]:
        return {
            "priority": getattr(self.api.Priority, qos["priority"]),
            "congestion_control": getattr(self.api.CongestionControl, qos["congestion"]),
            "express": qos["express"],
        }

    # --- what arrives

    def _on_sample(self, name: str, sample: Api) -> None:
        payload, attachment = sample.payload.to_bytes(), sample.attachment
        if payload.startswith(b"probe "):
            self.probes.add((name, payload.decode()))
            return
        message = attachment.to_string() if attachment is not None else payload[:ID_SIZE].decode(errors="replace")
        is_intact = payload == payload_of(message, len(payload))
        qos = [name_of(sample.priority), name_of(sample.congestion_control), bool(sample.express)]
        facts = [str(sample.key_expr), name_of(sample.kind), len(payload), is_intact, str(sample.encoding), qos]
        self.samples.append([name, message, *facts])

    def _on_query(self, name: str, replies: list[Api], fails: bool, query: Api) -> None:
        with query:
            question = query.payload.to_string()
            self.queries.append([name, question])
            for key in replies:
                if key.intersects(query.key_expr):
                    query.reply(key, f"{name} {question}")
            if fails:
                query.reply_err(f"{name} {question}")

    def _on_liveliness(self, alive: set[str], sample: Api) -> None:
        if name_of(sample.kind) == "PUT":
            alive.add(str(sample.key_expr))
        else:
            alive.discard(str(sample.key_expr))

    def do_collect(self, _: Command) -> dict[str, object]:
        """What arrived since the last time; of probes, all."""
        samples, self.samples = self.samples, []
        queries, self.queries = self.queries, []
        return {"samples": samples, "queries": queries, "probes": sorted(self.probes)}

    def do_matching(self, _: Command) -> dict[str, bool]:
        """Whether publishers and queriers have a match, by name."""
        found = {}
        for name, entity in self.entities.items():
            status = getattr(entity, "matching_status", None)
            if status is not None:
                found[name] = bool(status.matching)
        return found

    def do_liveliness(self, command: Command) -> dict[str, list[str]]:
        """What each liveliness subscriber holds to be alive, and, under "", what a liveliness get finds."""
        found = {name: sorted(alive) for name, alive in self.alive.items()}
        replies = self.session.liveliness().get(command["key"], timeout=GET_TIMEOUT)
        found[""] = sorted({str(reply.ok.key_expr) for reply in replies if reply.ok})
        return found

    # --- what is sent

    def do_put(self, command: Command) -> None:
        for message in command["messages"]:
            self._put(message)

    def _put(self, message: Command) -> None:
        options: dict[str, Any] = {}
        if message["size"] < ID_SIZE or message["is_delete"]:
            options["attachment"] = message["id"]
        publisher = self.entities.get(message["via"])
        if publisher is None:
            options |= self._qos(message["qos"])
        sender: Any = publisher or self.session
        arguments = [] if publisher else [self._key(message)]
        if message["is_delete"]:
            sender.delete(*arguments, **options)
            return
        if publisher is None:
            options["encoding"] = message["qos"]["encoding"]
        sender.put(*arguments, payload_of(message["id"], message["size"]), **options)

    def do_probe(self, command: Command) -> None:
        """Publish small messages that show whether the ways are there yet."""
        for probe in command["probes"]:
            publisher = self.entities.get(probe["via"])
            if publisher is not None:
                publisher.put(probe["payload"])
            else:
                block = self.api.CongestionControl.BLOCK
                self.session.put(probe["key"], probe["payload"], congestion_control=block)

    def do_get(self, command: Command) -> list[dict[str, object]]:
        return [self._get(question) for question in command["questions"]]

    def _get(self, question: Command) -> dict[str, object]:
        began = time.monotonic()
        querier = self.entities.get(question["via"])
        if querier is not None:
            found = querier.get(payload=question["id"])
        else:
            found = self.session.get(
                self._key(question),
                target=getattr(self.api.QueryTarget, question["target"]),
                consolidation=getattr(self.api.ConsolidationMode, question["consolidation"]),
                payload=question["id"],
                timeout=GET_TIMEOUT,
            )
        replies, errors = [], []
        for reply in found:
            if reply.ok:
                replies.append([str(reply.ok.key_expr), reply.ok.payload.to_string()])
            else:
                errors.append(reply.err.payload.to_string())
        return {"replies": replies, "errors": errors, "seconds": time.monotonic() - began}


def run_command(run: Callable[[Command], object], line: str) -> dict[str, object]:
    """The result of a command, or the text of its error."""
    try:
        return {"ok": run(json.loads(line))}
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}


def main() -> None:
    worker = Worker(importlib.import_module(sys.argv[1]))
    for line in sys.stdin:
        print(json.dumps(run_command(worker.run, line)), flush=True)


if __name__ == "__main__":
    main()
