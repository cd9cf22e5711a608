"""Compiles the hot modules from the very `.py` files that also run interpreted.

Also builds the page for a distribution, if that was not done yet. Everything else about the package is in
pyproject.toml. Four variables steer this file:

    ZENSPARK_PURE=1               compile nothing
    ZENSPARK_NO_PAGE=1            make a distribution without the page, where there is no Node to build it
    ZENSPARK_REQUIRE_COMPILED=1   failing to compile is an error; otherwise the package runs interpreted
    ZENSPARK_SANITIZE=...         compile for gcc's sanitizers, any of `address,undefined,coverage`; coverage is what
                                  fuzz/coverage.c counts for libFuzzer (`make asan ubsan fuzz`, in copies of the tree)
"""

import os
import subprocess
import sys
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist

COMPILED = [
    "zenspark/handlers/callback.py",
    "zenspark/handlers/channel.py",
    "zenspark/api/publisher.py",
    "zenspark/engine/publisher.py",
    "zenspark/types/sample.py",
    "zenspark/types/zbytes.py",
    "zenspark/key/match.py",
    "zenspark/key/tree.py",
    "zenspark/net/loop/busy_poll.py",
    "zenspark/transport/outbox.py",
    "zenspark/wire/buffer.py",
    "zenspark/wire/codec.py",
    "zenspark/wire/_bytes.py",
    "zenspark/wire/columns/binary.py",
    "zenspark/wire/columns/decoder.py",
    "zenspark/wire/columns/encoder.py",
    "zenspark/wire/columns/forwarder.py",
    "zenspark/wire/columns/fragments.py",
    "zenspark/wire/columns/memory.py",
    "zenspark/wire/columns/table.py",
    "zenspark/wire/templates.py",
]

EXTENSION = ".pyd" if sys.platform == "win32" else ".so"
SANITIZE = {
    "address": ["-fsanitize=address", "-fno-omit-frame-pointer"],
    "undefined": ["-fsanitize=undefined", "-fno-sanitize-recover=undefined"],
    "coverage": ["-fsanitize-coverage=trace-pc,trace-cmp", "-include", "fuzz/coverage.c"],
}
# gcc takes small integers that Cython reads one digit at a time for reads beyond the object, and says so at length
OPTIMIZE = ["/O2"] if sys.platform == "win32" else ["-O3", "-g0", "-Wno-array-bounds"]


def is_set(variable: str) -> bool:
    return os.environ.get(variable) == "1"


def extensions() -> list[Extension]:
    """Describes one extension module per compiled file, named like the module it stands in for."""
    if is_set("ZENSPARK_PURE"):
        return []
    sanitizers = [name for name in os.environ.get("ZENSPARK_SANITIZE", "").split(",") if name]
    flags = [flag for name in sanitizers for flag in SANITIZE[name]]
    return [
        Extension(
            name=file.removesuffix(".py").replace("/", "."),
            sources=[f"src/{file}"],
            extra_compile_args=[*flags, "-g", "-O1", "-Wno-array-bounds"] if sanitizers else OPTIMIZE,
            extra_link_args=[flag for flag in flags if flag.startswith("-fsanitize=")],
            depends=["setup.py", *(["fuzz/coverage.c"] if "coverage" in sanitizers else [])],
        )
        for file in COMPILED
        if Path("src", file).exists()
    ]


class BuildExtensions(build_ext):
    """Translates with Cython, then compiles; where that fails, leaves the package interpreted and says so."""

    def finalize_options(self) -> None:
        self.parallel = self.parallel or os.cpu_count()
        modules = self.distribution.ext_modules
        if modules:
            try:
                modules[:] = self.translate(modules)
            except Exception as error:
                modules.clear()
                self.give_up(error)
        super().finalize_options()

    def translate(self, modules: list[Extension]) -> list[Extension]:
        from Cython.Build import cythonize

        return cythonize(
            modules,
            build_dir="build/cython",
            compiler_directives={"language_level": 3},
            nthreads=0 if len(modules) == 1 else self.parallel,
        )

    def run(self) -> None:
        in_place = self.inplace
        try:
            super().run()
        except Exception as error:
            for output in self.get_outputs():
                Path(output).unlink(missing_ok=True)
            self.extensions = []
            self.inplace = in_place
            self.give_up(error)

    def give_up(self, error: Exception) -> None:
        say(f"the compiled modules could not be built: {error}")
        if is_set("ZENSPARK_REQUIRE_COMPILED"):
            say("a C compiler and the headers of this Python are needed; with ZENSPARK_REQUIRE_COMPILED=0")
            say("the package installs and runs without them: interpreted, and slower")
            raise SystemExit(1) from error
        if self.inplace:
            remove_old_extensions()
        say("going on without them: the package runs interpreted, and slower")


def remove_old_extensions() -> None:
    """Removes extension modules of an earlier build: they would be loaded in place of the newer source."""
    for file in COMPILED:
        for old in Path("src", file).parent.glob(f"{Path(file).stem}.*{EXTENSION}"):
            old.unlink()


PAGE = Path("src/zenspark/web/static/index.html")


def build_page() -> None:
    """Builds the page if it is not there; a source distribution has it already."""
    if PAGE.exists() or is_set("ZENSPARK_NO_PAGE"):
        return
    say("building the page")
    if subprocess.run([sys.executable, "tools/build_page.py"], check=False).returncode:
        say("the page could not be built: `make page` builds it beforehand; with ZENSPARK_NO_PAGE=1 the package")
        say("is made without it, and serves REST and metrics only")
        raise SystemExit(1)


class BuildPackage(build_py):
    """Copies the package with its page; an editable installation has it where `make page` writes it."""

    def run(self) -> None:
        if not self.editable_mode:
            build_page()
            self.__dict__.pop("data_files", None)  # found before the page was there
        super().run()


class SourceDistribution(sdist):
    """Packs the sources with the built page, so that a wheel made of them needs no Node."""

    def run(self) -> None:
        build_page()
        super().run()


def say(text: str) -> None:
    print(f"zenspark: {text}", file=sys.stderr)


setup(
    ext_modules=extensions(),
    cmdclass={"build_ext": BuildExtensions, "build_py": BuildPackage, "sdist": SourceDistribution},
)
