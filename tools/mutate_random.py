"""Changes codec, transport, router and session code at random places, and runs the tests of the layer.

    python -m tools.mutate_random [--count N] [--seed N] [--seconds S] [--limit S] [--jobs N] [--layer LAYER ...]

Lists what survived: a place whose tests would not notice a mistake, or a change that makes no difference. The same seed
makes the same mutants as long as the sources are the same. A mutant is tried first with the tests of its file, then
with those of its layer. Exits 0: to explain survivors is for people.
"""

import argparse
import ast
import copy
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tools.conformance import ROOT
from tools.mutants import Effort, Mutant, Outcome, Record, digest_of, resumed

RECORD = Path("build/mutations/random.json")
SOURCES = Path("src/zenspark")


class Layer(NamedTuple):
    """Files that are changed, and tests that should notice."""

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
        ),
    ),
    "transport": Layer(
        ("transport/*.py",),
        ("tests/unit/transport", "tests/property/test_bad_peers.py", "tests/property/test_group.py"),
    ),
    "router": Layer(
        ("router/*.py", "key/*.py"),
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
        ("tests/unit/api", "tests/unit/aio"),
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
    """Other text for a part of a file."""

    line: int
    start: int
    end: int
    text: str

    def applied(self, source: str) -> str:
        encoded = source.encode()
        return (encoded[: self.start] + self.text.encode() + encoded[self.end :]).decode()


def changes(source: str) -> list[Change]:
    """Every change the operators can make of a source file."""
    starts = [0]
    for line in source.encode().splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    found = []
    for node in running(ast.parse(source)):
        start, end = starts[node.lineno - 1] + node.col_offset, starts[node.end_lineno - 1] + node.end_col_offset  # type: ignore[operator]
        found += [Change(node.lineno, start, end, text) for text in mutated(node)]
    return found


def running(tree: ast.AST) -> Iterator[ast.expr | ast.stmt]:
    """Nodes whose change can change what happens: no annotation, decorator, docstring, assertion or log line."""
    if isinstance(tree, ast.expr | ast.stmt):
        yield tree
    for name, value in ast.iter_fields(tree):
        if name in ("annotation", "returns", "decorator_list", "type_params"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and not is_idle(child):
                yield from running(child)


def is_idle(node: ast.AST) -> bool:
    """Whether a node only tells something to people or to the type checker."""
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


def mutated(node: ast.expr | ast.stmt) -> Iterator[str]:
    """What may stand in place of a node."""
    match node:
        case ast.Constant(bool(value)):
            yield repr(not value)
        case ast.Constant(int(value)):
            yield repr(value + 1)
        case ast.Compare(ops=[operator, *_]):
            yield unparsed(node, ops=[COMPARISONS[type(operator)](), *node.ops[1:]])
        case ast.BoolOp(op=operator):
            yield unparsed(node, op=ast.Or() if isinstance(operator, ast.And) else ast.And())
        case ast.UnaryOp(ast.Not(), operand):
            yield f"({ast.unparse(operand)})"
        case ast.BinOp(op=operator) if type(operator) in OPERATORS:
            yield unparsed(node, op=OPERATORS[type(operator)]())
        case ast.IfExp(test):
            yield unparsed(node, test=ast.UnaryOp(ast.Not(), test))
        case ast.Return(ast.expr() as value) if not isinstance(value, ast.Constant):
            yield "return None"
        case ast.stmt() if isinstance(node, DELETED):
            yield "pass"


def unparsed(node: ast.expr, **fields: object) -> str:
    changed = copy.copy(node)
    for name, value in fields.items():
        setattr(changed, name, value)
    return f"({ast.unparse(changed)})"


def files_of(root: Path, layer: Layer) -> list[Path]:
    sources = root / SOURCES
    return sorted(file.relative_to(sources) for pattern in layer.files for file in sources.glob(pattern))


def stages(root: Path, file: Path, layer: Layer) -> tuple[tuple[str, ...], ...]:
    """The tests of a file, then those of its layer."""
    own = Path("tests/unit", file.with_name(f"test_{file.stem.strip('_')}.py"))
    return ((own.as_posix(),), layer.tests) if (root / own).exists() else (layer.tests,)


def mutants(root: Path, layers: list[str], count: int, seed: int) -> list[Mutant]:
    """Mutants by lot, about as many in each layer."""
    chance = random.Random(seed)
    places = {
        name: [
            (file, change)
            for file in files_of(root, LAYERS[name])
            for change in changes((root / SOURCES / file).read_text())
        ]
        for name in layers
    }
    for drawn in places.values():
        chance.shuffle(drawn)
    found = []
    for number in range(count):
        name = layers[number % len(layers)]
        if places[name]:
            file, change = places[name].pop()
            title = f"{SOURCES / file}:{change.line} {change.start}-{change.end} {change.text}"
            found.append(Mutant(title, str(SOURCES / file), change.applied, stages(root, file, LAYERS[name])))
    return found


def options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="changes code at random and runs the tests of the layer")
    parser.add_argument("--layer", action="append", choices=[*LAYERS], help="all of them if none is named")
    parser.add_argument("--count", type=int, default=100, help="how many mutants (%(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="(%(default)s)")
    parser.add_argument("--seconds", type=float, help="starts no mutant after so long")
    parser.add_argument("--limit", type=float, default=300, help="seconds for one mutant (%(default)s)")
    parser.add_argument("--jobs", type=int, default=Effort().jobs, help="processes at once (%(default)s)")
    return parser.parse_args(arguments)


def main(arguments: list[str], root: Path = ROOT) -> int:
    chosen = options(arguments)
    picked = mutants(root, chosen.layer or list(LAYERS), chosen.count, chosen.seed)
    record = Record(root / RECORD, digest_of(root))
    results = resumed(root, picked, record, Effort(chosen.limit, chosen.seconds, chosen.jobs))
    survivors = [mutant for mutant, result in results if result.outcome is Outcome.SURVIVED]
    print(f"{len(survivors)} of {len(results)} mutants survived")
    for mutant in survivors:
        print(f"  {mutant.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
