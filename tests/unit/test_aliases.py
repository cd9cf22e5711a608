"""Libraries that import zenoh get zenspark, if nothing has imported the other one before."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

import zenspark
from zenspark.aliases import MODULES


def run(program: str) -> str:
    command = [sys.executable, "-c", textwrap.dedent(program)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


LIBRARY = """
import zenoh
import zenoh.errors
import zenoh.ext
import zenoh.handlers as handlers
from zenoh import Config, aio, ext
from zenoh.ext import z_serialize
from zenoh.handlers import FifoChannel
from zenoh.zenoh import KeyExpr
import zenoh.shm
"""


@pytest.mark.slow
def test_install_as_zenoh_redirects_imports_of_a_library() -> None:
    program = f"""
import zenspark
zenspark.install_as_zenoh()
zenspark.install_as_zenoh()
{LIBRARY}
assert zenoh is zenspark and KeyExpr is zenspark.KeyExpr and ext is zenspark.ext is zenoh.ext
assert FifoChannel is zenspark.handlers.FifoChannel and aio is zenspark.aio and zenoh.shm is zenspark.shm
import pickle, sys
assert pickle.loads(pickle.dumps(KeyExpr("a/b"))) == KeyExpr("a/b")
assert zenoh.errors is zenspark.errors and zenoh.errors.UsageError is zenspark.UsageError
assert not [name for name in sys.modules if name.startswith("zenoh.api")]
print(zenoh.__name__, zenspark.__spec__.name)
"""
    assert run(program) == "zenspark zenspark"


def test_every_public_module_is_an_alias() -> None:
    """Or else `import zenoh.NAME` would load it a second time, with classes of its own."""
    assert {f".{name}" for name in zenspark._MODULES} | {""} == set(MODULES)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["zenoh", "zenoh.ext", "zenoh.zenoh", "zenoh.other"])
def test_install_as_zenoh_after_import_of_zenoh_raises(name: str) -> None:
    """Also when only a part of it is."""
    program = f"""
        import sys, types, zenspark
        sys.modules[{name!r}] = module = types.ModuleType({name!r})
        module.__file__ = "there.py"
        try:
            zenspark.install_as_zenoh()
        except zenspark.ZError as error:
            print(error)
        assert [each for each in sys.modules if each.split(".")[0] == "zenoh"] == [{name!r}]
    """
    expected = f"{name} is imported already, from there.py: call install_as_zenoh() before that"
    assert run(program) == expected
