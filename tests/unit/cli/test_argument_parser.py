import pytest

from zenspark.cli import argument_parser
from zenspark.cli.argument_parser import Parser, parse_endpoint, parse_key, parse_key_expr, parse_selector
from zenspark.errors import UsageError


def made() -> Parser:
    parser = Parser(prog="zenspark try")
    parser.add_argument("key", metavar="KEY")
    parser.add_argument("-l", "--listen", type=argument_parser.endpoint)
    parser.add_argument("--for", type=argument_parser.duration, dest="seconds")
    parser.add_argument("-n", type=argument_parser.count)
    return parser


def error_of(parser: Parser, arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit) as ended:
        parser.parse_args(arguments)
    assert ended.value.code == 2
    return capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["--lisen", "tcp/a:1"], "there is no flag --lisen; did you mean --listen?"),
        (["a", "--lisen=tcp/a:1"], "there is no flag --lisen; did you mean --listen?"),
        (["a", "--fly"], "there is no flag --fly"),
        (["a", "-x"], "there is no flag -x"),
        (["a", "-7"], "unexpected argument '-7'"),
        (["a", "b"], "unexpected argument 'b': quote a value with blanks or wildcards"),
        ([], "missing KEY"),
        (
            ["a", "--for", "5parsecs"],
            "--for: expected a duration such as 10, 500ms, 90s, 5m, 1h or 7d, found '5parsecs'",
        ),
        (["a", "-n", "0"], "-n: expected a whole number from 1, found '0'"),
        (["a", "--listen"], "-l/--listen: expected one argument"),
    ],
)
def test_a_wrong_argument_is_one_line(arguments: list[str], error: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert error_of(made(), arguments, capsys) == f"zenspark try: {error} (see zenspark try --help)\n"


def test_flags_of_a_subcommand_are_checked_by_it(capsys: pytest.CaptureFixture[str]) -> None:
    parser = Parser(prog="zenspark try")
    parser.add_subparsers(required=True).add_parser("ls").add_argument("--json", action="store_true")
    assert parser.parse_args(["ls", "--json"]).json
    assert "zenspark try ls: there is no flag --jsn; did you mean --json?" in error_of(parser, ["ls", "--jsn"], capsys)
    assert "there is no flag --jsn" in error_of(parser, ["--jsn", "ls"], capsys)


def test_value_after_double_dash_quoted_value_and_flag_prefix_are_accepted() -> None:
    assert made().parse_args(["--", "--fly"]).key == "--fly"
    assert made().parse_args(["--fly high"]).key == "--fly high"
    assert made().parse_args(["a", "--lis", "tcp/a:1"]).listen == "tcp/a:1"


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("127.0.0.1:7447", "tcp/127.0.0.1:7447"),
        ("[::1]:7447", "tcp/[::1]:7447"),
        ("router.local", "tcp/router.local:7447"),
        ("7447", "tcp/127.0.0.1:7447"),
        ("tcp://10.0.0.1:1", "tcp/10.0.0.1:1"),
        ("udp:10.0.0.1:1", "udp/10.0.0.1:1"),
        ("tls://10.0.0.1", "tls/10.0.0.1:7447"),
        ("localhost:7447", "tcp/localhost:7447"),
    ],
)
def test_error_of_a_malformed_endpoint_suggests_a_valid_one(text: str, meant: str) -> None:
    with pytest.raises(UsageError, match="expected an endpoint such as tcp") as error:
        parse_endpoint(text)
    assert str(error.value).endswith(f"; did you mean {meant}?")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("quic/a:1", "has a protocol that is not one of tcp, tls, udp, ws, unixsock-stream"),
        ("tpc/127.0.0.1:7447", "unixsock-stream; did you mean tcp/127.0.0.1:7447?"),
        ("unixsock//tmp/x.sock", "; did you mean unixsock-stream//tmp/x.sock?"),
        ("http/a:1", "udp, ws, unixsock-stream"),
        ("tcp/a:99999", "has the port '99999', which is not a number up to 65535"),
        ("tcp/a", "has no port in 'a'"),
        ("tcp/", "is not of the form"),
    ],
)
def test_an_endpoint_that_cannot_be_used_is_rejected(text: str, problem: str) -> None:
    with pytest.raises(UsageError) as error:
        parse_endpoint(text)
    assert problem in str(error.value)


@pytest.mark.parametrize("text", ["tcp/127.0.0.1:7447", "tls/[::]:0#enable_mtls=true", "unixsock-stream//tmp/x.sock"])
def test_valid_endpoint_is_returned_unchanged(text: str) -> None:
    assert parse_endpoint(text) == text


def test_keys_are_checked() -> None:
    assert parse_key_expr("a/**/*") == "a/*/**"
    assert parse_selector("a/**?_time=[now(-1h)..]") == "a/**?_time=[now(-1h)..]"
    assert parse_key("a/b") == "a/b"
    with pytest.raises(UsageError, match="expected a key without wildcards, found 'a/\\*'"):
        parse_key("a/*")
    with pytest.raises(UsageError, match="keys do not begin with /: did you mean 'a/b'"):
        parse_selector("/a/b")
