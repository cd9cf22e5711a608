"""Any JSON either describes a message or raises UsageError; a message that can be encoded is the same after JSON.

The first byte chooses the layer, the rest is JSON. How to run: see harness.py.
"""

from __future__ import annotations

import json

from fuzz.harness import run
from zenspark.errors import UsageError
from zenspark.wire.codec import encode
from zenspark.wire.json_fields import LAYERS, from_json_fields, to_json_fields


def check(data: bytes) -> None:
    family = list(LAYERS.values())[data[0] % len(LAYERS) if data else 0]
    try:
        fields = json.loads(data[1:])
    except (ValueError, RecursionError):
        return
    try:
        message = from_json_fields(family, fields)
        encode(message)
    except UsageError:
        return
    assert from_json_fields(family, json.loads(json.dumps(to_json_fields(message)))) == message, message


def main() -> None:
    run(check)


if __name__ == "__main__":
    main()
