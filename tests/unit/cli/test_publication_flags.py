from argparse import ArgumentParser, Namespace

import pytest

from zenspark.cli import get, put
from zenspark.cli.publication_flags import (
    DROP_PUBLICATION_HELP,
    DROP_QUERY_HELP,
    PRIORITIES,
    add_encoding_flag,
    add_qos_flags,
    choose_encoding,
    qos_options,
)
from zenspark.types.enums import CongestionControl, Priority


def given(*arguments: str) -> Namespace:
    parser = ArgumentParser()
    add_qos_flags(parser)
    add_encoding_flag(parser)
    return parser.parse_args(arguments)


def test_flags_are_arguments_of_put() -> None:
    assert qos_options(given()) == {
        "priority": Priority.DATA,
        "congestion_control": CongestionControl.BLOCK,
        "express": False,
        "attachment": None,
    }
    assert qos_options(given("--priority", "real-time", "--drop", "--express", "--attachment", "a")) == {
        "priority": Priority.REAL_TIME,
        "congestion_control": CongestionControl.DROP,
        "express": True,
        "attachment": b"a",
    }


def test_drop_of_a_query_is_described_apart_from_that_of_a_publication() -> None:
    assert DROP_PUBLICATION_HELP in " ".join(put.parser().format_help().split())
    assert DROP_QUERY_HELP in " ".join(get.parser().format_help().split())


def test_every_priority_has_a_name() -> None:
    assert list(PRIORITIES) == [
        "real-time",
        "interactive-high",
        "interactive-low",
        "data-high",
        "data",
        "data-low",
        "background",
    ]


@pytest.mark.parametrize(
    ("arguments", "value", "encoding"),
    [
        ([], "text", "text/plain"),
        ([], "@a.json", "application/json"),
        ([], "@a.unknown-suffix", None),
        ([], "-", None),
        ([], None, None),
        (["--encoding", "image/png"], "text", "image/png"),
        (["--encoding", "image/png"], "-", "image/png"),
    ],
)
def test_the_encoding_fits_the_value(arguments: list[str], value: str | None, encoding: str | None) -> None:
    assert choose_encoding(given(*arguments), value) == encoding
