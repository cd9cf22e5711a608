"""Files of samples; test_past.py downloads them."""

from __future__ import annotations

import json

from zenspark.key import KeyExpr
from zenspark.types.sample import sample_from_body
from zenspark.web.export import DOWNLOAD_FORMATS, export
from zenspark.wire import values as wire
from zenspark.wire.messages import Put


def test_samples_without_timestamp_are_exported() -> None:
    sample = sample_from_body(Put(payload=b'a,"b"\n'), KeyExpr("k"), wire.QoS.DEFAULT)
    text = export([sample], DOWNLOAD_FORMATS["csv"]).decode()
    assert text.splitlines()[0] == '"timestamp","key","kind","encoding","value","base64"'
    assert '"a,""b""' in text
    (document,) = json.loads(export([sample], DOWNLOAD_FORMATS["json"]))
    assert (document["timestamp"], document["value"]) == (None, 'a,"b"\n')
    assert export([], DOWNLOAD_FORMATS["json"]) == b"[]"
    assert export([sample], DOWNLOAD_FORMATS["parquet"]).startswith(b"PAR1")
