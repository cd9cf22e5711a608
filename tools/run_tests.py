"""Runs pytest with the tests that a file names, in the order of the file.

    python -P tools/run_tests.py FILE [ARGUMENT OF PYTEST ...]

A name stands for a test or for all its cases; one that does not exist is ignored. On its command line, thousands of
names would take pytest longer than most tests. Depends on nothing of the project, so that it can run in any directory.
"""

import sys
from pathlib import Path

import pytest


class Selection:
    """A plugin of pytest: selects the named tests, and runs them in the order of the names."""

    def __init__(self, names: list[str]) -> None:
        self.files = list(dict.fromkeys(name.partition("::")[0] for name in names))
        self._order = {name: number for number, name in enumerate(names)}

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        named = [item for item in items if self._place(item) is not None]
        items[:] = sorted(named, key=lambda item: self._place(item) or 0)

    def _place(self, item: pytest.Item) -> int | None:
        return self._order.get(item.nodeid, self._order.get(item.nodeid.partition("[")[0]))


def main(arguments: list[str]) -> int:
    names, *rest = arguments
    selection = Selection(Path(names).read_text().splitlines())
    return int(pytest.main([*rest, *selection.files], plugins=[selection]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
