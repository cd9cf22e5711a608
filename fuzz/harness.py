"""Shared by the fuzz targets: atheris, set up to follow the branches of zenspark.

A target is a module `fuzz_<name>.py` with `check(data)`, which raises if its invariant does not hold, and `main()`.
Seeds lie in `corpus/<name>/`, few and small. `make fuzz TARGET=<name> [SECONDS=60]` runs one in a build made for it:
atheris follows every branch, in compiled modules by their instrumentation (`coverage.c`), in the others by their byte
code, while AddressSanitizer and UndefinedBehaviorSanitizer watch the compiled ones. Without that build:

    mkdir -p build/fuzz/decode
    ZENSPARK_PURE=1 python -m fuzz.fuzz_decode -max_total_time=60 build/fuzz/decode fuzz/corpus/decode

runs everything interpreted; the first directory is where new inputs go. In an ordinary build (ZENSPARK_PURE=0) the
compiled modules are opaque to atheris.
"""

from __future__ import annotations

import ctypes
import gc
import importlib.machinery
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from types import FunctionType, ModuleType

HOOKS = [f"trace_{kind}{size}" for kind in ("cmp", "const_cmp") for size in (1, 2, 4, 8)] + ["trace_switch"]
"""Hooks by which libFuzzer observes comparisons; see coverage.c."""
REGISTRY = ["8bit_counters_init", "pcs_init"]
"""Functions that register counters with libFuzzer."""


def run(check: Callable[[bytes], None]) -> None:
    """Call `check` with ever new inputs until one fails or a limit of libFuzzer's options is reached; never returns."""
    import atheris  # only where there are wheels of it, so that `check` can be imported everywhere

    for function in gc.get_objects():  # the finder that reads the sources comes before atheris' own import hook
        if isinstance(function, FunctionType) and str(function.__module__).startswith("zenspark."):
            atheris.instrument_func(function)
    preloaded = ctypes.CDLL(None)
    if hasattr(preloaded, "zenspark_pcs_init"):
        forward(preloaded, HOOKS + REGISTRY)
    libraries = list(instrumented_modules())
    for library in libraries:
        follow(library)
    opaque = [] if libraries else ["-keep_seed=1"]  # or seeds are dropped that reach no branch which atheris follows
    atheris.Setup([*sys.argv, *opaque], check)
    atheris.Fuzz()


def instrumented_modules() -> Iterator[ctypes.CDLL]:
    """Yield the compiled modules of zenspark that are instrumented."""
    for name, module in list(sys.modules.items()):
        if name.startswith("zenspark.") and is_compiled(module):
            library = ctypes.CDLL(module.__file__)
            if hasattr(library, "zenspark_coverage_counters"):
                yield library


def is_compiled(module: ModuleType) -> bool:
    return isinstance(getattr(module, "__loader__", None), importlib.machinery.ExtensionFileLoader)


def counters_of(library: ctypes.CDLL) -> ctypes.Array[ctypes.c_uint8]:
    """Return the counters of a compiled module: how often each branch was reached."""
    size = ctypes.c_size_t.in_dll(library, "zenspark_coverage_size").value
    return (ctypes.c_uint8 * size).in_dll(library, "zenspark_coverage_counters")


def follow(library: ctypes.CDLL) -> None:
    """Register the counters of a compiled module with libFuzzer, with a table of an address in the code for each."""
    counters, fuzzer = counters_of(library), libfuzzer()
    size, start = len(counters), ctypes.addressof(counters)
    places = (ctypes.c_size_t * (2 * size))()  # pairs of an address and flags
    places[::2] = list(range(start, start + size))
    KEPT.append(places)
    fuzzer.__sanitizer_cov_8bit_counters_init(ctypes.c_void_p(start), ctypes.c_void_p(start + size))
    table = ctypes.addressof(places)
    fuzzer.__sanitizer_cov_pcs_init(ctypes.c_void_p(table), ctypes.c_void_p(table + ctypes.sizeof(places)))
    forward(library, HOOKS)


def forward(library: ctypes.CDLL, hooks: list[str]) -> None:
    """Make a library forward the hooks that the compiler inserted to libFuzzer."""
    for hook in hooks:
        function = ctypes.cast(getattr(libfuzzer(), f"__sanitizer_cov_{hook}"), ctypes.c_void_p)
        ctypes.c_void_p.in_dll(library, f"zenspark_{hook}").value = function.value


def libfuzzer() -> ctypes.CDLL:
    """Return the library of atheris that contains libFuzzer."""
    return ctypes.CDLL(import_module("atheris.core_with_libfuzzer").__file__)


KEPT: list[object] = []
"""Keeps alive what libFuzzer holds addresses of."""
