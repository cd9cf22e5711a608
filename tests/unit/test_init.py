import re

import zenspark


def test_version_is_one_a_package_index_accepts() -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+", zenspark.__version__)


def test_says_which_build_runs() -> None:
    assert zenspark.build_kind() in ("compiled", "interpreted")
