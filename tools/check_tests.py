"""Checks that source files and unit tests pair up: for `wire/buffer.py` there is `wire/test_buffer.py`.

Prints each file that has no partner and exits 1 if there is one. Leading and trailing underscores do not
count: `__init__.py` belongs to `test_init.py`, `_build.py` to `test_build.py`. A generated file or an
`__init__.py` that only re-exports names may have a test but needs none.

Tests of one source that would be too long for one file are divided by subject: `test_router_queries.py`, beside
`test_router.py`, belongs to `router.py` unless there is a `router_queries.py`.
"""

import ast
import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parents[1]
GENERATED = {Path("wire/codec.py")}
OTHERS = frozenset({"pyspark_zenoh"})
"""Packages beside zenspark; the tests of each are in a folder of its own among the unit tests."""


def orphans(sources: Path, tests: Path, apart: frozenset[str] = frozenset()) -> list[str]:
    """Name every file without a partner; folders of tests that are `apart` belong to other packages."""
    partners = partners_in(sources)
    untested = [
        f"{file} has no test {tests / test}"
        for test, file in partners.items()
        if not (tests / test).exists() and needs_test(file, sources)
    ]
    homeless = [
        f"{test} tests no file under {sources}"
        for test in sorted(tests.rglob("test_*.py"))
        if source_of(test.relative_to(tests), partners) is None and test.relative_to(tests).parts[0] not in apart
    ]
    return untested + homeless


def files_testing(source: Path, sources: Path, tests: Path) -> list[Path]:
    """Return the test files of a source, without those that belong to another source with a longer name."""
    partners = partners_in(sources)
    folder = tests / source.relative_to(sources).parent
    return [test for test in sorted(folder.glob("test_*.py")) if source_of(test.relative_to(tests), partners) == source]


def partners_in(sources: Path) -> dict[Path, Path]:
    """Map the path that the test of each source has among the tests to that source."""
    return {partner_of(file.relative_to(sources)): file for file in sorted(sources.rglob("*.py"))}


def source_of(test: Path, partners: Mapping[Path, Path]) -> Path | None:
    """Return the source that a test file is named after, whole or up to a subject; of several the longest name."""
    words = test.stem.split("_")
    names = (test.with_name(f"{'_'.join(words[:count])}.py") for count in range(len(words), 1, -1))
    return next((partners[name] for name in names if name in partners), None)


def partner_of(source: Path) -> Path:
    return source.with_name(f"test_{source.stem.strip('_')}.py")


def needs_test(file: Path, sources: Path) -> bool:
    if file.relative_to(sources) in GENERATED:
        return False
    return file.name != "__init__.py" or not only_names(ast.parse(file.read_text()))


def only_names(module: ast.Module) -> bool:
    """Whether a module does nothing but import names, list them and set dunder constants."""
    return all(
        isinstance(statement, ast.Import | ast.ImportFrom) or is_docstring(statement) or is_dunder(statement)
        for statement in module.body
    )


def is_docstring(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def is_dunder(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Assign) and all(
        isinstance(target, ast.Name) and target.id.startswith("__") for target in statement.targets
    )


def main() -> int:
    source, unit = ROOT / "src", ROOT / "tests" / "unit"
    found = orphans(source / "zenspark", unit, OTHERS)
    for package in sorted(OTHERS):
        found += orphans(source / package, unit / package)
    for line in found:
        print(line.replace(f"{ROOT}/", ""))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
