"""zenspark speaks Zenoh and lands it in Spark."""

import os

from zenspark._pure import build_kind, choose_build

__version__ = "0.1.0"

choose_build(os.environ)

__all__ = ["__version__", "build_kind"]
