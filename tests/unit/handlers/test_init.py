"""`zenspark.handlers` is a module of its own."""

import zenspark
import zenspark.handlers
from zenspark import errors
from zenspark.handlers import handler


def test_handlers_module_exports_the_names_of_the_api() -> None:
    homes = vars(errors) | vars(handler)
    assert all(getattr(zenspark.handlers, name) is homes[name] for name in zenspark.handlers.__all__)
    assert zenspark.Handler is zenspark.handlers.Handler
