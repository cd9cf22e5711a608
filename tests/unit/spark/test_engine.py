from __future__ import annotations

import pytest

from zenspark.spark.engine import LOG4J_CONFIG, spark_config, with_task_retries


def test_local_master_binds_the_driver_to_loopback() -> None:
    local = spark_config("local[2]", {})
    assert local["spark.driver.bindAddress"] == "127.0.0.1"
    assert "spark.driver.bindAddress" not in spark_config("spark://host:7077", {})


def test_user_config_overrides_defaults() -> None:
    assert spark_config("local", {"spark.ui.enabled": "true"})["spark.ui.enabled"] == "true"


def test_log4j_config_exists_and_is_passed_to_the_driver() -> None:
    assert LOG4J_CONFIG.is_file()
    assert LOG4J_CONFIG.as_uri() in spark_config("local", {})["spark.driver.extraJavaOptions"]


def test_java_options_follow_the_log_options() -> None:
    assert spark_config("local", {}, "-Xint")["spark.driver.extraJavaOptions"].endswith(".properties -Xint")
    assert spark_config("local", {"spark.driver.extraJavaOptions": "-Xmx1g"}, "-Xint")[
        "spark.driver.extraJavaOptions"
    ] == ("-Xmx1g")


@pytest.mark.parametrize(
    ("master", "expected"),
    [
        ("local", "local[1,4]"),
        ("local[*]", "local[*,4]"),
        ("local[2]", "local[2,4]"),
        ("local[2,1]", "local[2,1]"),
        ("local-cluster[2,1,512]", "local-cluster[2,1,512]"),
        ("spark://host:7077", "spark://host:7077"),
    ],
)
def test_local_master_gets_task_retries(master: str, expected: str) -> None:
    assert with_task_retries(master) == expected
