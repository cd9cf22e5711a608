"""DocumentedEnumType: `help` shows of an enumeration the docstrings below its members, as editors do."""

from __future__ import annotations

from enum import Enum, EnumType

HELP_WIDTH = 120
"""Characters of a line of `help`, as in the source."""
EXAMPLE = "\nExample:\n"


class DocumentedEnumType(EnumType):
    """The type of enumerations with documented members: their `__doc__` has a section `Attributes`.

    Python keeps no docstrings of attributes: they are read from the source when a caller asks. Without the source the
    docstring of the enumeration is left.
    """

    @property
    def __doc__(cls) -> str | None:  # type: ignore[override]  # of the enumeration, not of this type
        import inspect  # here, as every command loads this module
        import textwrap

        text: str | None = vars(cls)["__doc__"]
        found = {} if text is None else from_source(cls)  # None with python -OO
        if text is None or not found:
            return text
        lines = [
            textwrap.fill(f"{name}: {line}", HELP_WIDTH, initial_indent=" " * 4, subsequent_indent=" " * 8)
            for name, line in found.items()
        ]
        description, example, code = inspect.cleandoc(text).partition(EXAMPLE)
        return "\n".join([description.rstrip(), "", "Attributes:", *lines, *([example + code] if example else [])])


def from_source(kind: type[Enum] | DocumentedEnumType) -> dict[str, str]:
    """Return the docstrings below members and other attributes of an enumeration, by name; none without the source."""
    import ast  # here, as every command loads this module
    import inspect
    import textwrap

    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(kind)))
    except OSError:
        return {}
    (definition,) = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    found: dict[str, str] = {}
    for above, below in zip(definition.body, definition.body[1:], strict=False):
        match above, below:
            case ast.Assign(targets=[ast.Name(id=name)]), ast.Expr(value=ast.Constant(value=str(text))):
                found[name] = " ".join(text.split())
    return found
