"""Write `wire/codec.py` from the declarations; with `--check`, only check that it is fresh."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from zenspark.wire.codec_generator import generate

TARGET = Path(__file__).resolve().parent.parent / "src" / "zenspark" / "wire" / "codec.py"


def ruff(source: str, *arguments: str) -> str:
    command = [sys.executable, "-m", "ruff", *arguments, "--stdin-filename", str(TARGET), "-"]
    return subprocess.run(command, input=source, capture_output=True, text=True, check=True).stdout


def formatted(source: str) -> str:
    return ruff(ruff(source, "check", "--select", "I", "--fix"), "format")


def main(arguments: list[str]) -> int:
    source = formatted(generate())
    if "--check" not in arguments:
        TARGET.write_text(source)
        return 0
    if TARGET.exists() and TARGET.read_text() == source:
        return 0
    print("wire/codec.py is not fresh: run `make codec`", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
