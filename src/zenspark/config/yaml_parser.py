"""YAML parser for configurations: it limits depth, and the number of values that aliases expand to.

Before any value is built, the events of the text are counted: depth, and every alias with the size of its anchor. Only
plain values are built, no objects; a duplicate name is an error, as in zenohd.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, cast

import yaml

from zenspark.config.document_limits import MAX_NESTING_DEPTH, DocumentError, check_length
from zenspark.config.schema import Json

MAX_YAML_VALUES = 1_000_000
"""Maximum number of values in a text, those of aliases counted each time: a few hundred bytes of aliases can expand
to billions."""

_Base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""The loader of libyaml, ten times as fast, where PyYAML was built with it."""


class _Loader(_Base):  # type: ignore[misc]  # chosen at run time
    """Rejects duplicate names, and names that are no text."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[str] = set()
        for name, _ in node.value:
            if name.tag == "tag:yaml.org,2002:merge":
                continue
            if name.tag != "tag:yaml.org,2002:str":
                raise _error(name.start_mark, "a name that is not a text")
            if name.value in seen:
                raise _error(name.start_mark, f"the name {name.value!r} a second time")
            seen.add(name.value)
        return cast("dict[Hashable, Any]", super().construct_mapping(node, deep=deep))


def parse(text: str) -> Json:
    """Parse a YAML text; DocumentError if it is not valid."""
    check_length(text)
    try:
        _EventCounter().count_events(text)
        return yaml.load(text, _Loader)
    except yaml.MarkedYAMLError as error:
        raise _error(error.problem_mark or error.context_mark, error.problem or "not YAML") from error
    except yaml.reader.ReaderError as error:
        raise DocumentError(1, 1, f"a character at position {error.position} that YAML does not allow") from error


class _EventCounter:
    """Counts the values of a text, with aliases expanded, without building them."""

    def __init__(self) -> None:
        self._sizes: dict[str, int] = {}
        """Number of values that each anchor expands to."""
        self._open: list[tuple[str | None, int]] = []
        """The enclosing collections: anchor of each, and number of values before it."""
        self._nodes = 0

    def count_events(self, text: str) -> None:
        for event in yaml.parse(text, _Loader):
            if isinstance(event, yaml.CollectionStartEvent):
                self._enter(event)
            elif isinstance(event, yaml.CollectionEndEvent):
                anchor, before = self._open.pop()
                self._set_anchor_size(anchor, self._nodes - before)
            elif isinstance(event, yaml.ScalarEvent):
                self._add(1, event)
                self._set_anchor_size(event.anchor, 1)
            elif isinstance(event, yaml.AliasEvent):
                self._add(self._sizes.get(event.anchor or "", 1), event)
                if any(anchor == event.anchor for anchor, _ in self._open):
                    raise _error(event.start_mark, f"the alias {event.anchor} inside what it stands for")

    def _enter(self, event: yaml.CollectionStartEvent) -> None:
        self._open.append((event.anchor, self._nodes))
        self._add(1, event)
        if len(self._open) > MAX_NESTING_DEPTH:
            raise _error(event.start_mark, f"more than {MAX_NESTING_DEPTH} objects and lists inside each other")

    def _add(self, nodes: int, event: yaml.Event) -> None:
        self._nodes += nodes
        if self._nodes > MAX_YAML_VALUES:
            raise _error(event.start_mark, f"more than {MAX_YAML_VALUES} values, with aliases counted each time")

    def _set_anchor_size(self, anchor: str | None, size: int) -> None:
        if anchor is not None:
            self._sizes[anchor] = size


def _error(mark: Any, problem: str) -> DocumentError:  # noqa: ANN401 - a mark of either loader
    return DocumentError(mark.line + 1, mark.column + 1, problem) if mark else DocumentError(1, 1, problem)
