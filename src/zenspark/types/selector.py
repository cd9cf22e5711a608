"""Parameters of a query, and Selector: a key expression with parameters (protocol section 14.1).

The text is `name=value;name=value`. Nothing is trimmed or percent-decoded, empty items are ignored, several values of
one name are separated by `|`, and of a name that occurs twice the first counts. Separators at the very end are dropped,
as in eclipse-zenoh.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias

from zenspark.key import KeyExpr


class Parameters:
    """The parameters of a query, by name. They are mutable; `str` is the text that is sent.

    Args:
        parameters: Text such as "a=1;b=2", or a dictionary from name to value; none by default.

    Raises:
        TypeError: It is neither.

    Example:
        >>> parameters = zenspark.Parameters("limit=10")
        >>> parameters.get("limit")
        '10'
    """

    __slots__ = ("_text",)
    _text: str

    def __init__(self, parameters: Mapping[str, str] | str | None = None) -> None:
        match parameters:
            case None:
                self._text = ""
            case str():
                self._text = parameters.rstrip(";=|")
            case Mapping() if all(isinstance(text, str) for item in parameters.items() for text in item):
                self._text = _join_items(parameters.items())
            case _:
                raise TypeError(f"expected a str, or a dict from str to str, found {parameters!r}")

    @classmethod
    def of(cls, parameters: IntoParameters | None) -> Parameters:
        """Return parameters as they are, and make them from anything else.

        Args:
            parameters: Parameters, text, a dictionary, or None for no parameters.

        Returns:
            The same parameters, or new ones.

        Raises:
            TypeError: It is none of these.

        Example:
            >>> zenspark.Parameters.of({"limit": "10"})
            Parameters('limit=10')
        """
        return parameters if isinstance(parameters, Parameters) else cls(parameters)

    def copy(self) -> Parameters:
        """Return a copy of the parameters.

        Returns:
            New parameters with the same text; to change them does not change these.

        Example:
            >>> zenspark.Parameters("limit=10").copy()
            Parameters('limit=10')
        """
        duplicate = Parameters()
        duplicate._text = self._text
        return duplicate

    def is_empty(self) -> bool:
        """Return whether there are no parameters.

        Returns:
            True if there is no name.

        Example:
            >>> zenspark.Parameters("").is_empty()
            True
        """
        return not any(self._items())

    def get(self, key: str, default: str | None = None) -> str | None:
        """Return the value of a name.

        Args:
            key: The name.
            default: Result for a name that does not occur; None by default.

        Returns:
            The value; an empty string if the name has none.

        Raises:
            TypeError: An argument has a wrong type.

        Example:
            >>> zenspark.Parameters("limit=10;deep").get("deep")
            ''
        """
        return next((value for name, value in self._items() if name == _require_str(key)), default)

    def values(self, key: str) -> list[str]:
        """Return the values of a name that has several, separated by `|`.

        Args:
            key: The name.

        Returns:
            The values; none if the name does not occur.

        Raises:
            TypeError: An argument has a wrong type.

        Example:
            >>> zenspark.Parameters("id=1|2").values("id")
            ['1', '2']
        """
        value = self.get(key)
        return [] if value is None else value.split("|")

    def insert(self, key: str, value: str) -> str | None:
        """Set the value of a name; the name moves to the end.

        Args:
            key: The name.
            value: The value.

        Returns:
            The value it had before, or None.

        Raises:
            TypeError: An argument has a wrong type.

        Example:
            >>> parameters = zenspark.Parameters("limit=10;deep")
            >>> parameters.insert("limit", "20")
            '10'
            >>> parameters
            Parameters('deep;limit=20')
        """
        old = self.get(key)
        self._replace([(key, _require_str(value))])
        return old

    def remove(self, key: str) -> str | None:
        """Remove a name.

        Args:
            key: The name.

        Returns:
            The value it had, or None.

        Raises:
            TypeError: An argument has a wrong type.

        Example:
            >>> parameters = zenspark.Parameters("limit=10;deep")
            >>> parameters.remove("limit")
            '10'
            >>> parameters
            Parameters('deep')
        """
        old = self.get(key)
        self._text = _join_items((name, value) for name, value in self._items() if name != key)
        return old

    def extend(self, parameters: IntoParameters) -> None:
        """Append parameters; they replace those of the same name.

        Args:
            parameters: Parameters, text, or a dictionary.

        Raises:
            TypeError: It is none of these.

        Example:
            >>> parameters = zenspark.Parameters("limit=10;deep")
            >>> parameters.extend({"limit": "20"})
            >>> parameters
            Parameters('deep;limit=20')
        """
        self._replace(list(Parameters.of(parameters)))

    def is_ordered(self) -> bool:
        """Return whether the names are in alphabetical order.

        Returns:
            True if they are, also without any name.

        Example:
            >>> zenspark.Parameters("limit=10;deep").is_ordered()
            False
        """
        names = [name for name, _ in self._items()]
        return names == sorted(names)

    def _items(self) -> Iterator[tuple[str, str]]:
        for item in self._text.split(";"):
            if item:
                name, _, value = item.partition("=")
                yield name, value

    def _replace(self, items: list[tuple[str, str]]) -> None:
        replaced = {name for name, _ in items}
        self._text = _join_items([item for item in self._items() if item[0] not in replaced] + items)

    def __bool__(self) -> bool:
        return not self.is_empty()

    def __contains__(self, key: str) -> bool:
        return self.get(key) is not None

    def __getitem__(self, key: str) -> str | None:
        return self.get(key)

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return iter(list(self._items()))  # a list: the caller may change them while it iterates

    __hash__ = object.__hash__  # by identity, as in eclipse-zenoh: it can be changed

    def __eq__(self, other: object) -> bool:
        return self._text == other._text if isinstance(other, Parameters) else NotImplemented

    def __str__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return f"Parameters({self._text!r})"


IntoParameters: TypeAlias = Parameters | Mapping[str, str] | str
"""Parameters of a query, in any of the ways to give them."""


class Selector:
    """Selector of a query: a key expression, and parameters for the queryables.

    Example:
        >>> selector = zenspark.Selector("demo/**?limit=10")
        >>> str(selector.key_expr), str(selector.parameters)
        ('demo/**', 'limit=10')
    """

    __slots__ = ("_key_expr", "_parameters")
    _key_expr: KeyExpr
    _parameters: Parameters

    def __init__(self, arg: KeyExpr | str, /, parameters: IntoParameters | None = None) -> None:
        """Make it from a key expression and parameters, or from the text of both with a `?` between them.

        Args:
            arg: A key expression, or text such as "demo/**?limit=10".
            parameters: Parameters; if they are given, `arg` is a key expression only.

        Raises:
            UsageError: The key expression is not valid.
            TypeError: An argument has a wrong type.
        """
        if parameters is None and isinstance(arg, str):
            arg, _, parameters = arg.partition("?")
        self.key_expr = arg
        self.parameters = "" if parameters is None else parameters

    @classmethod
    def of(cls, selector: Selector | KeyExpr | str) -> Selector:
        """Return a selector as it is, and make one from anything else.

        Args:
            selector: A selector, a key expression, or text.

        Returns:
            The same selector, or a new one.

        Raises:
            UsageError: The key expression is not valid.
            TypeError: An argument has a wrong type.

        Example:
            >>> zenspark.Selector.of("demo/**?limit=10")
            Selector('demo/**?limit=10')
        """
        return selector if isinstance(selector, Selector) else cls(selector)

    @property
    def key_expr(self) -> KeyExpr:
        """The key expression of the query."""
        return self._key_expr

    @key_expr.setter
    def key_expr(self, key_expr: KeyExpr | str) -> None:
        """The keys that are queried."""
        if not isinstance(key_expr, KeyExpr | str):
            raise TypeError(f"expected a KeyExpr or a str, found {type(key_expr).__name__!r}")
        self._key_expr = KeyExpr.of(key_expr)

    @property
    def parameters(self) -> Parameters:
        """A copy of the parameters: to change them, change the copy and assign it."""
        return self._parameters.copy()

    @parameters.setter
    def parameters(self, parameters: IntoParameters) -> None:
        """A copy of the parameters: to change them, change the copy and assign it."""
        self._parameters = Parameters.of(parameters).copy()

    __hash__ = object.__hash__  # by identity, as in eclipse-zenoh: it can be changed

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Selector):
            return NotImplemented
        return self._key_expr == other._key_expr and self._parameters == other._parameters

    def __str__(self) -> str:
        return f"{self._key_expr}?{self._parameters}" if self._parameters else str(self._key_expr)

    def __repr__(self) -> str:
        return f"Selector({str(self)!r})"


def _require_str(value: str) -> str:
    if not isinstance(value, str):
        raise TypeError(f"expected a str, found {type(value).__name__!r}")
    return value


def _join_items(items: Iterable[tuple[str, str]]) -> str:
    return ";".join(f"{name}={value}" if value else name for name, value in items if name)
