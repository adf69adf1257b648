"""What shared voices rely on, held by both kinds of buckets: an S3 server and a folder."""

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from bench import bucket as s3_server
from oscine_engine.errors import StoreError
from oscine_service.storage import bucket as buckets
from oscine_service.storage.address import Address, read
from oscine_service.storage.bucket import Bucket, Taken, opened


def test_an_object_is_found_as_it_was_written_last(held: Bucket) -> None:
    assert held.read("a/=x%2Fy/b.json") is None
    first = held.write("a/=x%2Fy/b.json", b"one")
    second = held.write("a/=x%2Fy/b.json", b"two, which is longer")
    found = held.read("a/=x%2Fy/b.json")
    assert found is not None
    assert (found.data, found.tag) == (b"two, which is longer", second) != (b"one", first)
    assert {key: seen.tag for key, seen in held.list("a/").items()} == {"a/=x%2Fy/b.json": second}
    held.delete("a/=x%2Fy/b.json")
    held.delete("a/=x%2Fy/b.json")
    assert held.read("a/=x%2Fy/b.json") is None and held.list("a/") == {}


def test_of_many_who_write_a_new_object_one_does(held: Bucket) -> None:
    start, outcomes = threading.Barrier(6), []

    def write(number: int) -> None:
        start.wait()
        try:
            held.write("names/ann", f"{number}".encode(), new=True)
            outcomes.append(number)
        except Taken:
            outcomes.append(None)

    writers = [threading.Thread(target=write, args=(number,)) for number in range(6)]
    for each in writers:
        each.start()
    for each in writers:
        each.join()
    won = [number for number in outcomes if number is not None]
    found = held.read("names/ann")
    assert len(outcomes) == 6 and len(won) == 1
    assert found is not None and found.data == f"{won[0]}".encode()
    assert list(held.list("names/")) == ["names/ann"]


def test_a_list_has_all_there_is(held: Bucket) -> None:
    keys = {f"v/=/{number:03}.json" for number in range(30)} | {"v/=ann/1.json"}
    for key in keys:
        held.write(key, b"x")
    held.write("other", b"x")
    assert set(held.list("v/")) == keys
    assert set(held.list("nothing/")) == set()


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"AWS_SECRET_ACCESS_KEY": "another"}, "credentials"),
        ({"AWS_ENDPOINT_URL_S3": "http://127.0.0.1:9"}, "cannot be reached.*AWS_ENDPOINT_URL_S3"),
        ({"AWS_ACCESS_KEY_ID": "looks"}, "access was denied.*s3:PutObject"),
    ],
)
def test_a_bucket_that_cannot_be_used_says_why(
    s3_address: Address, monkeypatch: pytest.MonkeyPatch, changed: dict[str, str], says: str
) -> None:
    for name, value in changed.items():
        monkeypatch.setenv(name, value)
    held = opened(s3_address)
    with pytest.raises(StoreError, match=says):
        held.write("a", b"b")
    held.close()


def test_a_bucket_that_is_not_there_is_named(server: s3_server.Server, s3_address: Address) -> None:
    held = opened(Address("s3", "no-such-bucket", ""))
    with pytest.raises(StoreError, match="s3://no-such-bucket: there is no such bucket"):
        held.list("voices/")
    held.close()


LISTED = "<ListBucketResult><IsTruncated>false</IsTruncated><Contents><Key>v/a</Key>{}</Contents></ListBucketResult>"


def reads(held: Bucket) -> object:
    return held.read("a")


def writes(held: Bucket) -> object:
    return held.write("a", b"b")


def lists(held: Bucket) -> object:
    return held.list("v/")


@contextmanager
def answering(body: bytes, headers: dict[str, str]) -> Iterator[str]:
    """An HTTP server that answers everything so; its address."""

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            self.send_response(200)
            for name, value in {"Content-Length": str(len(body)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        do_PUT = do_GET

        def log_message(self, *_: object) -> None:
            """What fails is the test's."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.parametrize(
    ("asked", "body"),
    [
        (lists, LISTED.format("<LastModified>2026-01-01T00:00:00Z</LastModified>")),
        (lists, LISTED.format('<ETag>"a"</ETag>')),
        (lists, LISTED.format('<ETag>"a"</ETag><LastModified>yesterday</LastModified>')),
        # As of a proxy, or another port of the server: no list of nothing.
        (lists, "<html><body>It works!</body></html>"),
        (lists, ""),
        (reads, "{}"),
        (writes, ""),
    ],
)
def test_a_server_that_is_none_of_s3_says_so(
    monkeypatch: pytest.MonkeyPatch, asked: Callable[[Bucket], object], body: str
) -> None:
    pytest.importorskip("boto3", reason="needs boto3: make test installs it")
    says = pytest.raises(StoreError, match=r"is not of S3.*AWS_ENDPOINT_URL_S3")
    with answering(body.encode(), {}) as url, anywhere(monkeypatch, url) as held, says:
        asked(held)


def test_an_object_that_is_cut_short_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("boto3", reason="needs boto3: make test installs it")
    cut = answering(b"half", {"ETag": "a", "Content-Length": "8"})
    with cut as url, anywhere(monkeypatch, url) as held, pytest.raises(StoreError, match="cannot be reached"):
        held.read("a")


def test_an_object_that_is_too_large_is_named(held: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(buckets, "MOST_BYTES", 9)
    held.write("a", b"123456789")
    found = held.read("a")
    assert found is not None and found.data == b"123456789"
    held.write("a", b"1234567890")
    with pytest.raises(StoreError, match="a in the shared voice store is too large"):
        held.read("a")


@contextmanager
def anywhere(monkeypatch: pytest.MonkeyPatch, url: str) -> Iterator[Bucket]:
    for name, value in {
        "AWS_ENDPOINT_URL_S3": url,
        "AWS_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "a",
        "AWS_SECRET_ACCESS_KEY": "b",
    }.items():
        monkeypatch.setenv(name, value)
    held = opened(Address("s3", "voices", ""))
    yield held
    held.close()


def test_without_boto3_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "boto3", None)
    with pytest.raises(StoreError, match=r"pip install 'oscine\[s3\]'"):
        opened(Address("s3", "voices", ""))


def test_a_folder_that_is_not_mounted_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="is no folder; mount"):
        opened(Address("file", "", str(tmp_path / "none")))


def test_what_a_killed_writer_left_aside_is_no_object_and_goes(tmp_path: Path) -> None:
    held = opened(Address("file", "", str(tmp_path)))
    held.write("v/a", b"x")
    new, old = tmp_path / "v" / ".unfinished-1", tmp_path / "v" / ".unfinished-2"
    for each in (new, old):
        each.write_bytes(b"half")
    os.utime(old, (0, 0))
    assert list(held.list("v/")) == ["v/a"]
    assert new.exists() and not old.exists()


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("s3://my-bucket", "s3://my-bucket"),
        ("s3://my-bucket/some/where/", "s3://my-bucket/some/where"),
        ("file:///mnt/voices", "file:///mnt/voices"),
        ("file:///mnt/my%20voices/", "file:///mnt/my%20voices"),
        ("file:///mnt/100%25", "file:///mnt/100%25"),
    ],
)
def test_an_address_is_read(written: str, shown: str) -> None:
    assert str(read(written)) == shown
    assert read(shown) == read(written)


@pytest.mark.parametrize(
    "written",
    [
        "http://a/b",
        "s3://",
        "s3:///x",
        "s3://key:secret@bucket/x",
        "s3://A/b",
        "file://host/x",
        "file:///",
        "s3://b?x=1",
    ],
)
def test_what_is_no_address_is_refused(written: str) -> None:
    with pytest.raises(ValueError, match=r"s3://|environment"):
        read(written)
