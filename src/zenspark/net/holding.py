"""Holding back: what happens when a router hears faster from one neighbour than another takes.

The loop cannot wait, so what it passes on would pile up. Where a link is behind, publications that may be dropped are
dropped; for the others their source is not read any more until there is room, which slows it down in turn. A
neighbour that takes nothing although others wait for it is given up. All of this runs in the loop.
"""

from __future__ import annotations

from collections.abc import Callable

from zenspark.errors import CloseReason
from zenspark.net.driver import Pump
from zenspark.net.loop import Loop
from zenspark.router.face import Face, Out
from zenspark.router.forwarding import Share
from zenspark.wire.columns import NO_LANE
from zenspark.wire.values import Congestion


class HoldingBack:
    """Who is behind with what was passed on to it, and who waits for that; `patience` is for how long, in seconds."""

    def __init__(self, loop: Loop, patience: float) -> None:
        self._loop = loop
        self._patience = patience
        self._waiting: dict[Pump, set[Pump]] = {}

    def passing(self, source: Pump, congestion: Congestion, out: Out, driver_of: Callable[[Face], Pump | None]) -> Out:
        """What may go on now of a publication."""
        kept: Out = []
        for face, message in out:
            driver = driver_of(face)
            if driver is not None and driver.is_behind:
                if congestion is not Congestion.BLOCK:
                    continue
                self._hold(source, driver)
            kept.append((face, message))
        return kept

    def sharing(self, source: Pump, target: Pump, share: Share) -> bytes:
        """The lanes of what may go on now of a neighbour's share of publications in columns."""
        if not target.is_behind:
            return bytes(share.lanes)
        if any(lane != NO_LANE for lane in share.blocking):
            self._hold(source, target)
        return bytes(share.blocking)

    def _hold(self, source: Pump, target: Pump) -> None:
        """Read nothing more from one neighbour until another has taken what it was sent, or is given up."""
        if target not in self._waiting:
            self._waiting[target] = set()
            target.on_room = self.let_go
            self._look_after(target)
        self._waiting[target].add(source)
        source.pause(target)

    def let_go(self, target: Pump) -> None:
        """A neighbour has room, or is gone."""
        for source in self._waiting.pop(target, ()):
            source.resume(target)

    def _look_after(self, target: Pump) -> None:
        """Give up a neighbour for which others wait, if it takes nothing."""
        taken = target.taken

        def look() -> None:
            if target not in self._waiting:
                return
            if target.taken == taken:
                target.close(CloseReason.UNRESPONSIVE, f"took nothing for {self._patience:g} s")
            else:
                self._look_after(target)

        self._loop.call_at(self._loop.now() + self._patience, look)
