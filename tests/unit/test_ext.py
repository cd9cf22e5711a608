"""`zenspark.ext` is a module of its own."""

import zenspark.ext
from zenspark.api import ext


def test_ext_module_exports_the_names_of_the_api() -> None:
    assert {name: getattr(zenspark.ext, name) for name in ext.__all__} == {
        name: getattr(ext, name) for name in ext.__all__
    }
