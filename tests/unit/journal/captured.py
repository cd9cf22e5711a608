"""Journals that earlier versions wrote, to be read by this one."""

from __future__ import annotations

import shutil
from pathlib import Path

DATA = Path(__file__).parent / "data"


def nulls_in_dictionaries(into: Path) -> Path:
    """A copy of a journal of four blocks in which text columns have a null among the values of a dictionary.

    A router and peers recorded eclipse-zenoh publishers: deletes without a stamp, publishers that stamp and others that
    do not, source information on some samples. Its 163 rows are in `timestamp_id`, `source_zid` and `via` partly null.
    """
    return Path(shutil.copytree(DATA / "nulls-in-dictionaries", into / "nulls-in-dictionaries"))
