"""Changes codec, transport, router and session code at random places, and runs the tests that run these places.

    python -m tools.mutate_random [--count N] [--seed N] [--seconds S] [--limit S] [--jobs N] [--layer LAYER ...]
                                  [--whole-layer]

Lists the survivors: places whose tests would not detect a mistake, or changes that make no difference. The same seed
makes the same mutants as long as the sources are the same. A mutant is tried with the tests of its layer that run the
changed line, those of its file before others and the fastest first; where the line runs before any test, also with
all other tests of its file and its layer.
Exits 0: survivors need an explanation by a developer.
"""

import argparse
import ast
import copy
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tools.check_tests import files_testing
from tools.conformance import ROOT
from tools.covering_tests import Coverage, Place, coverage_of, is_below, places
from tools.mutants import Effort, Mutant, Outcome, Record, digest_of, resumed

RECORD = Path("build/mutations/random.json")
WHOLE_LAYER = Path("build/mutations/random_whole_layer.json")
SOURCES = Path("src/zenspark")
MIN_TIMEOUT_SECONDS = 60  # with less, quick tests seem to hang on a busy machine


class Layer(NamedTuple):
    """Files that are changed, and tests that should detect it."""

    files: tuple[str, ...]
    tests: tuple[str, ...]


# Declarations are left out: the codec is generated from them, and its freshness is checked elsewhere.
LAYERS = {
    "codec": Layer(
        ("wire/buffer.py", "wire/codec.py", "wire/columns/*.py", "wire/templates.py", "wire/values.py"),
        (
            "tests/conformance",
            "tests/vectors",
            "tests/unit/wire",
            "tests/property/test_codec.py",
            "tests/property/test_columns.py",
            "tests/property/test_templates.py",
        ),
    ),
    "transport": Layer(
        ("transport/*.py",),
        ("tests/unit/transport", "tests/property/test_bad_peers.py", "tests/property/test_group.py"),
    ),
    "router": Layer(
        ("router/**/*.py", "key/*.py"),
        (
            "tests/unit/router",
            "tests/unit/key",
            "tests/property/test_router.py",
            "tests/property/test_key.py",
            "tests/property/test_forwarding.py",
        ),
    ),
    "session": Layer(
        (
            "engine/direct_queries.py",
            "api/entities.py",
            "engine/runtime.py",
            "engine/publisher.py",
            "types/query.py",
            "engine/connectivity.py",
            "engine/reply_collector.py",
            "api/session.py",
            "engine/subscriptions.py",
        ),
        (
            "tests/unit/engine",
            "tests/unit/api",
            "tests/unit/aio",
            "tests/unit/config/test_limits.py",
            "tests/unit/types/test_query.py",
            "tests/property/test_fast_paths.py",
            "tests/property/test_query_paths.py",
        ),
    ),
}

COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.FloorDiv: ast.Mult, ast.LShift: ast.RShift,
    ast.RShift: ast.LShift, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.Mod: ast.Add,
}  # fmt: skip
DELETED = (ast.Expr, ast.Assign, ast.AugAssign, ast.Raise, ast.Delete, ast.Break, ast.Continue)
LOGGING = frozenset({"debug", "info", "warning", "error", "exception", "log"})


class Change(NamedTuple):
    """A new text for a part of a file."""

    line: int
    start: int
    end: int
    text: str
    place: Place

    def applied(self, source: str) -> str:
        encoded = source.encode()
        return (encoded[: self.start] + self.text.encode() + encoded[self.end :]).decode()


def changes(source: str) -> list[Change]:
    """List every change that the operators can make in a source file."""
    starts = [0]
    for line in source.encode().splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    found, place_at = [], places(source)
    for node in executed_nodes(ast.parse(source)):
        start, end = starts[node.lineno - 1] + node.col_offset, starts[node.end_lineno - 1] + node.end_col_offset  # type: ignore[operator]
        found += [Change(node.lineno, start, end, text, place_at[node.lineno]) for text in mutations_of(node)]
    return found


def executed_nodes(tree: ast.AST) -> Iterator[ast.expr | ast.stmt]:
    """Yield nodes whose change can change behaviour: no annotation, decorator, docstring, assertion or log line."""
    if isinstance(tree, ast.expr | ast.stmt):
        yield tree
    for name, value in ast.iter_fields(tree):
        if name in ("annotation", "returns", "decorator_list", "type_params"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and not is_idle(child):
                yield from executed_nodes(child)


def is_idle(node: ast.AST) -> bool:
    """Whether a node is only for readers, for logs or for the type checker."""
    match node:
        case ast.Import() | ast.ImportFrom() | ast.Assert() | ast.Expr(ast.Constant()):
            return True
        case ast.If(ast.Name("TYPE_CHECKING")):
            return True
        case ast.Expr(ast.Call(ast.Attribute(attr=name))):
            return name in LOGGING
        case ast.JoinedStr():
            return True
    return False


def mutations_of(node: ast.expr | ast.stmt) -> Iterator[str]:
    """Yield the texts that may replace a node."""
    match node:
        case ast.Constant(bool(value)):
            yield repr(not value)
        case ast.Constant(int(value)):
            yield repr(value + 1)
        case ast.Compare(ops=[operator, *_]):
            yield unparse_with(node, ops=[COMPARISONS[type(operator)](), *node.ops[1:]])
        case ast.BoolOp(op=operator):
            yield unparse_with(node, op=ast.Or() if isinstance(operator, ast.And) else ast.And())
        case ast.UnaryOp(ast.Not(), operand):
            yield f"({ast.unparse(operand)})"
        case ast.BinOp(op=operator) if type(operator) in OPERATORS:
            yield unparse_with(node, op=OPERATORS[type(operator)]())
        case ast.IfExp(test):
            yield unparse_with(node, test=ast.UnaryOp(ast.Not(), test))
        case ast.Return(ast.expr() as value) if not isinstance(value, ast.Constant):
            yield "return None"
        case ast.stmt() if isinstance(node, DELETED):
            yield "pass"


def unparse_with(node: ast.expr, **fields: object) -> str:
    changed = copy.copy(node)
    for name, value in fields.items():
        setattr(changed, name, value)
    return f"({ast.unparse(changed)})"


def files_of(root: Path, layer: Layer) -> list[Path]:
    sources = root / SOURCES
    return sorted(file.relative_to(sources) for pattern in layer.files for file in sources.glob(pattern))


class Choice:
    """Selects the tests of mutants."""

    def __init__(self, root: Path, coverage: Coverage) -> None:
        self.root = root
        self.coverage = coverage

    def mutant(self, file: Path, change: Change, layer: Layer) -> Mutant:
        path = (SOURCES / file).as_posix()
        title = f"{path}:{change.line} {change.start}-{change.end} {change.text}"
        stages = self.stages(file, change.place, layer)
        return Mutant(title, path, change.applied, stages, self.timeouts(stages))

    def stages(self, file: Path, place: Place, layer: Layer) -> tuple[tuple[str, ...], ...]:
        """Return tests that run the place; if it runs before any test, also all others. Its own file comes first."""
        covering = self.coverage.of((SOURCES / file).as_posix(), place, layer.tests)
        files = files_testing(self.root / SOURCES / file, self.root / SOURCES, self.root / "tests/unit")
        own = tuple(test.relative_to(self.root).as_posix() for test in files)
        found: list[tuple[str, ...]] = []
        if place.in_function:
            near = [test for test in covering.tests if is_below(test, own)]
            found += [tuple(near), tuple(test for test in covering.tests if not is_below(test, own))]
        if covering.before or not place.in_function:
            found += [own, layer.tests]
        return tuple(stage for stage in found if stage)

    def with_whole_layer(self, mutant: Mutant) -> Mutant:
        """Return the same mutant with all tests of its layer."""
        file = Path(mutant.file).relative_to(SOURCES)
        stages = (next(layer.tests for layer in LAYERS.values() if file in files_of(self.root, layer)),)
        return mutant._replace(stages=stages, timeouts=self.timeouts(stages))

    def timeouts(self, stages: tuple[tuple[str, ...], ...]) -> tuple[float, ...]:
        """Return the seconds after which a test has hung, by the slowest test of each stage when it was traced."""
        return tuple(MIN_TIMEOUT_SECONDS + 2 * self.coverage.slowest(stage) for stage in stages)


def mutants(choice: Choice, layers: list[str], count: int, seed: int) -> list[Mutant]:
    """Draw mutants at random, about as many in each layer."""
    generator = random.Random(seed)
    root = choice.root
    drawn = {
        name: [
            (file, change)
            for file in files_of(root, LAYERS[name])
            for change in changes((root / SOURCES / file).read_text())
        ]
        for name in layers
    }
    for left in drawn.values():
        generator.shuffle(left)
    turns = (layers[number % len(layers)] for number in range(count))
    return [choice.mutant(*drawn[name].pop(), LAYERS[name]) for name in turns if drawn[name]]


def options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="changes code at random and runs the tests of the layer")
    parser.add_argument("--layer", action="append", choices=[*LAYERS], help="all of them if none is named")
    parser.add_argument("--count", type=int, default=100, help="how many mutants (%(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the random choice (%(default)s)")
    parser.add_argument("--seconds", type=float, help="seconds after which no mutant is started")
    parser.add_argument("--limit", type=float, default=300, help="seconds for one mutant (%(default)s)")
    parser.add_argument("--jobs", type=int, default=Effort().jobs, help="processes at once (%(default)s)")
    parser.add_argument("--whole-layer", action="store_true", help="try survivors with all tests of their layer, too")
    return parser.parse_args(arguments)


def main(arguments: list[str], root: Path = ROOT) -> int:
    chosen = options(arguments)
    effort, digest = Effort(chosen.limit, chosen.seconds, chosen.jobs), digest_of(root)
    choice = Choice(root, coverage_of(root, [test for layer in LAYERS.values() for test in layer.tests]))
    picked = mutants(choice, chosen.layer or list(LAYERS), chosen.count, chosen.seed)
    results = resumed(root, picked, Record(root / RECORD, digest), effort)
    left = [mutant for mutant, result in results if result.outcome is Outcome.SURVIVED]
    if chosen.whole_layer:
        whole = [choice.with_whole_layer(mutant) for mutant in left]
        again = resumed(root, whole, Record(root / WHOLE_LAYER, digest), effort)
        detected = {mutant.name for mutant, result in again if result.outcome is not Outcome.SURVIVED}
        left = [mutant for mutant in left if mutant.name not in detected]
    print(f"{len(left)} of {len(results)} mutants survived")
    for mutant in left:
        print(f"  {mutant.name}" if mutant.stages else f"  {mutant.name} (no test runs this line)")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
