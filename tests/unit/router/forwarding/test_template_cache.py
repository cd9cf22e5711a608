"""What is remembered of publications."""

from __future__ import annotations

import gc

import pytest

from zenspark.router.face import Face, Region
from zenspark.router.forwarding import template_cache
from zenspark.router.forwarding.template_cache import FaceTemplateCache
from zenspark.wire.values import WhatAmI, ZenohId


def face() -> Face:
    return Face(1, ZenohId(1), WhatAmI.PEER, Region.PEER)


def test_cache_is_kept_until_the_version_changes() -> None:
    known: FaceTemplateCache[bool] = FaceTemplateCache()
    one, other = face(), face()
    known.for_face(one, 1)[("a",)] = True
    assert known.for_face(one, 1) == {("a",): True}
    assert known.for_face(other, 1) == {}
    assert known.for_face(one, 2) == {}


def test_number_of_cached_templates_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(template_cache, "MAX_CACHED_TEMPLATES", 3)
    known: FaceTemplateCache[bool] = FaceTemplateCache()
    one = face()
    for number in range(20):
        known.for_face(one, 1)[(number,)] = True
    assert len(known.for_face(one, 1)) <= 4


def test_cache_is_cleared_when_its_key_bytes_exceed_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(template_cache, "MAX_CACHED_KEY_BYTES", 10)
    known: FaceTemplateCache[bool] = FaceTemplateCache()
    one = face()
    for key in ("long" * 3, None):
        found = known.for_face(one, 1)
        found["a",] = True
        found.count_key_bytes(key)
    assert known.for_face(one, 1) == {("a",): True}
    assert known.for_face(one, 1).bytes == 0


def test_removed_face_is_dropped_from_the_cache() -> None:
    known: FaceTemplateCache[bool] = FaceTemplateCache()
    known.for_face(face(), 1)[("a",)] = True
    gc.collect()
    assert len(known._faces) == 0
