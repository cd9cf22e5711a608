"""`refuse_copy`: objects that stand for something live cannot be copied or pickled, as in eclipse-zenoh."""

from __future__ import annotations

from typing import NoReturn


def refuse_copy(self: object, protocol: object) -> NoReturn:
    """Raise TypeError: as `__reduce_ex__` of a class, for `copy` and `pickle`. A copy that is collected would end it.

    Args:
        self: The object that is copied or pickled.
        protocol: The version of pickle's protocol; not used.
    """
    name = type(self).__name__
    raise TypeError(f"cannot copy or pickle {name!r} objects: they belong to a session or a search in this process")
