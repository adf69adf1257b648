"""One service for all clients, and a table of what came of them."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme

from bench.asr import Recogniser
from tests.interop.rows import ROWS
from tests.interop.service import Service, serving
from tests.interop.table import Results, complete, write

RESULTS = pytest.StashKey[Results]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--write-table", type=Path, help="page that a whole run of tests/interop writes its table into")


def pytest_configure(config: pytest.Config) -> None:
    config.stash[RESULTS] = {}


def pytest_sessionfinish(session: pytest.Session) -> None:
    path, results = session.config.getoption("--write-table", default=None), session.config.stash.get(RESULTS, {})
    if path is None:
        return
    if complete(results):
        write(path, results)
    else:
        print(f"\n{len(results)} of {len(ROWS)} clients were driven: {path} stays as it is")


@pytest.fixture(scope="session")
def results(request: pytest.FixtureRequest) -> Results:
    return request.config.stash[RESULTS]


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with serving(tmp_path_factory.mktemp("service")) as service:
        yield service


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The certificate of who signed that of `secure`."""
    path = tmp_path_factory.mktemp("authority") / "ca.pem"
    ca = trustme.CA()
    ca.cert_pem.write_to_path(path)
    issued = ca.issue_cert("127.0.0.1", "localhost")
    issued.private_key_pem.write_to_path(path.with_name("key.pem"))
    for part in issued.cert_chain_pems:
        part.write_to_path(path.with_name("cert.pem"), append=True)
    return path


@pytest.fixture(scope="session")
def secure(authority: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """The same over TLS."""
    cert, key = (authority.with_name(name) for name in ("cert.pem", "key.pem"))
    with serving(
        tmp_path_factory.mktemp("secure"), "--tls-cert", cert, "--tls-key", key, authority=authority
    ) as service:
        yield service


@pytest.fixture(scope="session")
def recognisers() -> dict[str, Recogniser]:
    return {"en": Recogniser("en"), "zh": Recogniser("zh")}
