"""What the fuzz targets share: atheris, set up so that it sees what zenspark does.

A target is a file `fuzz_<name>.py` with `check(data)`, which raises if its invariant does not hold, and `main()`. Seeds
lie in `corpus/<name>/`: captured messages and streams, few and small. `make fuzz TARGET=<name>` runs one compiled; to
let it find its way first, run it interpreted. The first directory is where new inputs go:

    mkdir -p build/fuzz/decode
    ZENSPARK_PURE=1 python fuzz/fuzz_decode.py -max_total_time=60 build/fuzz/decode fuzz/corpus/decode
    make fuzz TARGET=decode SECONDS=60

Interpreted, atheris follows every branch and finds its way into rare ones. The compiled modules are opaque to it: it
changes seeds blindly, but what runs is the real thing, so it should begin with what the interpreted run has found.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from types import FunctionType

import zenspark


def run(check: Callable[[bytes], None]) -> None:
    """Call `check` with ever new inputs until one fails or libFuzzer's options say stop; never returns."""
    import atheris  # only where there are wheels of it, so that `check` can be imported everywhere

    options = []
    if zenspark.build_kind() == "compiled":
        options = ["-keep_seed=1"]  # or every seed is dropped at once: none reaches a branch that atheris sees
    else:
        for function in gc.get_objects():  # the finder that reads the sources comes before atheris' own import hook
            if isinstance(function, FunctionType) and str(function.__module__).startswith("zenspark."):
                atheris.instrument_func(function)
    atheris.Setup([*sys.argv, *options], check)
    atheris.Fuzz()
