"""Screen: prints drawings and tables to a terminal in colour, or to a file as plain text."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TextIO

from rich.cells import cell_len, chop_cells
from rich.color import ColorSystem
from rich.console import COLOR_SYSTEMS, Console, RenderableType
from rich.style import Style

ASCII = str.maketrans("→←─…", "><-.")


class Screen:
    """Prints renderables of rich, and long tables, for which rich is too slow."""

    def __init__(self, file: TextIO | None = None) -> None:
        """`file` is standard output by default."""
        self._console = Console(file=file, highlight=False, emoji=False, markup=False)
        name = self._console.color_system
        self._colours: ColorSystem | None = None if name is None or self._console.no_color else COLOR_SYSTEMS[name]

    @property
    def width(self) -> int:
        return self._console.width

    def print(self, *renderables: RenderableType, style: str | None = None) -> None:
        """Print renderables, each on its own lines."""
        if self._console.is_terminal:
            self._console.print(*renderables, sep="\n", style=style)
            return
        with self._console.capture() as captured:
            self._console.print(*renderables, sep="\n", style=style)
        self.write(line.rstrip() for line in captured.get().splitlines())

    def write(self, lines: Iterable[str]) -> None:
        """Print lines unchanged, or with ASCII replacements if the encoding is not UTF."""
        translated = lines if self._console.encoding.startswith("utf") else (line.translate(ASCII) for line in lines)
        self._console.file.writelines(f"{line}\n" for line in translated)

    def style(self, text: str, style: str) -> str:
        """Return the text with the escape codes of a style, if the terminal has colours."""
        return Style.parse(style).render(text, color_system=self._colours) if style and text else text


def wrap_text(text: str, width: int) -> list[str]:
    """Wrap a text to lines of at most `width` columns, after a blank or a slash where possible."""
    if cell_len(text) <= width:
        return [text]
    lines = [""]
    for word in re.findall("[^ /]*[ /]?", text):
        bare = word.rstrip()
        if cell_len(lines[-1] + bare) > width:
            lines += chop_cells(bare, width)
            lines[-1] += word[len(bare) :]
        else:
            lines[-1] += word
    return [line.rstrip() for line in lines if line]


def cut_text(text: str, width: int) -> str:
    """Cut a text to at most `width` columns; the last one is then an ellipsis."""
    if cell_len(text) <= width:
        return text
    return chop_cells(text, width - 1)[0] + "…" if width > 1 else "…"[:width]
