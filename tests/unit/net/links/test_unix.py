import contextlib
import fcntl
import os
import socket
import stat
from pathlib import Path

import pytest

from tests.unit.net.ends import connect, connected_links, listen, receive, send
from tests.wait import TIMEOUT_SECONDS
from zenspark.errors import LinkError, UsageError
from zenspark.net.links import unix
from zenspark.net.links.endpoint import Endpoint


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "zenoh.sock"


def at(path: Path, options: str = "") -> str:
    return f"unixsock-stream/{path}{options}"


def test_bytes_arrive(path: Path) -> None:
    with connected_links(at(path)) as (left, right):
        assert left.dst == right.src == at(path)
        assert left.src.startswith("unixsock-stream/")
        assert left.src != left.dst
        assert left.is_streamed
        assert left.mtu == 65535
        assert left.interfaces == ()
        send(left, b"hello")
        assert receive(right, 5) == b"hello"
        right.close()
        assert receive(left) == b""


def test_close_of_the_listener_removes_its_files(path: Path) -> None:
    listener = listen(at(path))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert listener.locator.text == at(path)
    assert listener.accept() is None
    listener.close()
    listener.close()
    assert list(path.parent.iterdir()) == []


def test_file_access_mask_is_applied(path: Path) -> None:
    with contextlib.closing(listen(at(path, "#file_access_mask=0o660"))):
        assert stat.S_IMODE(path.stat().st_mode) == 0o660


def test_stale_socket_file_is_replaced(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as left_behind:
        left_behind.bind(str(path))
    path.with_name("zenoh.sock.lock").touch()
    with connected_links(at(path)) as (left, right):
        send(left, b"hello")
        assert receive(right, 5) == b"hello"


def test_socket_file_in_use_is_kept(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(path))
        other.listen()
        with pytest.raises(LinkError, match=r"cannot listen: in use$"):
            listen(at(path))
        assert path.exists()


def test_full_backlog_counts_as_in_use(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as other, contextlib.ExitStack() as stack:
        other.bind(str(path))
        other.listen(0)
        for _ in range(2):
            waiting = stack.enter_context(socket.socket(socket.AF_UNIX))
            waiting.setblocking(False)
            waiting.connect_ex(str(path))
        with pytest.raises(LinkError, match=r"cannot listen: in use \("):
            listen(at(path))
        assert path.exists()


def test_two_listeners_do_not_share_a_path(path: Path) -> None:
    with contextlib.closing(listen(at(path))) as first:
        with pytest.raises(LinkError, match="cannot listen: in use"):
            listen(at(path))
        with contextlib.closing(connect(first)):
            pass


def test_the_lock_of_eclipse_zenoh_is_respected(path: Path) -> None:
    descriptor = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    with pytest.raises(LinkError, match="in use"):
        listen(at(path))
    os.close(descriptor)
    listen(at(path)).close()


def test_a_lock_file_that_was_replaced_is_locked_anew(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, calls = fcntl.flock, list[int]()

    def replace_first(descriptor: int, how: int) -> None:
        real(descriptor, how)
        calls.append(descriptor)
        if len(calls) == 1:
            os.unlink(f"{path}.lock")

    monkeypatch.setattr(fcntl, "flock", replace_first)
    listen(at(path)).close()
    assert len(calls) == 2


def test_listen_on_a_regular_file_fails_and_keeps_it(path: Path) -> None:
    path.write_text("precious")
    with pytest.raises(LinkError, match="that is not a socket"):
        listen(at(path))
    assert path.read_text() == "precious"


def test_path_replaced_by_another_listener_is_kept(path: Path) -> None:
    listener = listen(at(path))
    path.unlink()
    path.write_text("somebody else's")
    listener.close()
    assert path.read_text() == "somebody else's"


def test_another_process_leaves_the_files(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    listener = listen(at(path))
    monkeypatch.setattr(os, "getpid", lambda: -1)
    listener.close()
    assert path.exists()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_leaves_the_files(path: Path) -> None:
    with contextlib.closing(listen(at(path))) as listener:
        child = os.fork()
        if not child:
            listener.close()
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        assert path.exists()


def test_connect_without_listener_fails(path: Path) -> None:
    with pytest.raises(LinkError, match="No such file or directory"):
        unix.connect(Endpoint.parse(at(path)), TIMEOUT_SECONDS)


def test_listen_in_a_missing_directory_raises_link_error(tmp_path: Path) -> None:
    with pytest.raises(LinkError, match="No such file or directory"):
        listen(at(tmp_path / "nowhere" / "a"))


def test_path_that_is_too_long_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="more than 107 bytes"):
        listen(at(tmp_path / ("x" * 120)))


def test_connect_without_af_unix_is_a_usage_error(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(socket, "AF_UNIX")
    with pytest.raises(UsageError, match="needs a system"):
        unix.connect(Endpoint.parse(at(path)), TIMEOUT_SECONDS)
