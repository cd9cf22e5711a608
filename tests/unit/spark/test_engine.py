from __future__ import annotations

from zenspark.spark.engine import LOGGING, settings


def test_local_sessions_stay_on_this_machine() -> None:
    local = settings("local[2]", {})
    assert local["spark.driver.bindAddress"] == "127.0.0.1"
    assert "spark.driver.bindAddress" not in settings("spark://host:7077", {})


def test_users_have_the_last_word() -> None:
    assert settings("local", {"spark.ui.enabled": "true"})["spark.ui.enabled"] == "true"


def test_the_file_that_makes_it_quiet_is_there() -> None:
    assert LOGGING.is_file()
    assert LOGGING.as_uri() in settings("local", {})["spark.driver.extraJavaOptions"]
