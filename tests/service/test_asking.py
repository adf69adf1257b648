"""Asking a service one thing, whoever it is that answers."""

import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest

from oscine_service import asking

HEAD = b"HTTP/1.1 200 OK\r\n\r\n"


@contextmanager
def answering(answer: Callable[[socket.socket], object]) -> Iterator[str]:
    """A server that takes one connection."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            with suppress(OSError), server.accept()[0] as connection:
                connection.recv(4096)
                answer(connection)

        thread = threading.Thread(target=serve)
        thread.start()
        yield "{}:{}".format(*server.getsockname())
        thread.join()


@pytest.mark.parametrize(("begun", "goes_on"), [(HEAD, b"a"), (HEAD[:-2], b"a: b\r\n")], ids=["body", "headers"])
def test_an_answer_without_an_end_is_not_waited_for(begun: bytes, goes_on: bytes) -> None:
    def slowly(connection: socket.socket) -> None:
        connection.sendall(begun)
        pause = threading.Event()
        while True:
            connection.sendall(goes_on)
            pause.wait(0.02)

    with answering(slowly) as address, pytest.raises(TimeoutError, match="does not end"):
        asking.get(address, "/metrics", patience_s=0.2)


def test_no_more_is_read_than_is_wanted() -> None:
    def flood(connection: socket.socket) -> None:
        connection.sendall(HEAD)
        while True:
            connection.sendall(b"oscine 1\n" * 10_000)

    with answering(flood) as address:
        answer = asking.get(address, "/metrics", patience_s=60.0, most=100_000)
    assert answer.status == 200 and answer.body == (b"oscine 1\n" * 20_000)[:100_000]


def test_an_answer_is_whole() -> None:
    with answering(lambda connection: connection.sendall(HEAD + b"all of it")) as address:
        assert asking.get(address, "/livez", patience_s=60.0).body == b"all of it"


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (HEAD + b"<html>It works!</html>", "takes no calls"),
        (b"HTTP/1.1 abc \x1b[31mred\r\n\r\n", "nobody answers"),
        (b"HTTP/1.1 503 x\r\n\r\n" + b'{"status": "\\u001b[2J\\n"}', "takes no calls:  [2J"),
    ],
)
def test_whoever_else_listens_there_is_not_ready_and_writes_nothing_to_the_terminal(answer: bytes, words: str) -> None:
    with answering(lambda connection: connection.sendall(answer)) as address:
        port = address.rpartition(":")[2]
        command = (sys.executable, "-m", "oscine_service.cli", "ready", "--http-port", port)
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and words in done.stderr and done.stderr.removesuffix("\n").isprintable()
