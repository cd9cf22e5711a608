"""Threads for what users run: one for each callback."""

from __future__ import annotations

import threading
from collections.abc import Callable


def spawn(work: Callable[[], None]) -> None:
    """Run something that may take its time, in a thread that does not keep the process alive."""
    threading.Thread(target=work, name="zenspark-callback", daemon=True).start()
