"""Connections that nobody else can read, with certificates of a real authority made for the test."""

import os
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import grpc
import pytest
import pytest_asyncio
import soundfile
import trustme
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from oscine_engine.checkpoint.load import Checkpoint
from oscine_engine.errors import InvalidInput
from oscine_engine.events import SessionRequest
from oscine_proto.oscine.v1.speech_pb2_grpc import SpeechServiceStub
from oscine_service.cli import client
from oscine_service.config.model import Security, Settings
from oscine_service.entrance import Entrance
from oscine_service.errors import leaf
from oscine_service.security.keys import Key, digest
from oscine_service.security.tls import Files, Tls, files
from tests.service.calls import config, text
from tests.service.security.conftest import House, house, keys_file

pytestmark = pytest.mark.asyncio(loop_scope="module")


@dataclass(frozen=True)
class Papers:
    """An authority, and the files of a service."""

    authority: trustme.CA
    certificate: Path
    key: Path
    authority_file: Path

    def issue(self, authority: trustme.CA | None = None) -> None:
        """Put a new certificate in place, as a renewal does."""
        made = (authority or self.authority).issue_cert("127.0.0.1", "localhost")
        aside = self.certificate.with_suffix(".new")
        for path, pem in ((self.certificate, made.cert_chain_pems[0]), (self.key, made.private_key_pem)):
            pem.write_to_path(str(aside))
            os.replace(aside, path)

    def client(self, certificate: trustme.LeafCert | None = None) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=str(self.authority_file))
        if certificate is not None:
            certificate.configure_cert(context)
        return context

    def channel(self, address: str, certificate: trustme.LeafCert | None = None) -> grpc.aio.Channel:
        root = self.authority_file.read_bytes()
        own = certificate and (certificate.private_key_pem.bytes(), certificate.cert_chain_pems[0].bytes())
        credentials = grpc.ssl_channel_credentials(root, *(own or (None, None)))
        # A channel of its own each time: grpc shares connections otherwise.
        options = (("grpc.enable_http_proxy", 0), ("grpc.use_local_subchannel_pool", 1))
        return grpc.aio.secure_channel(address, credentials, options)


def papers(folder: Path) -> Papers:
    authority = trustme.CA()
    made = Papers(authority, folder / "service.pem", folder / "service.key", folder / "authority.pem")
    authority.cert_pem.write_to_path(str(made.authority_file))
    made.issue()
    return made


def settings(made: Papers, *, mutual: bool) -> Settings:
    ca = made.authority_file if mutual else None
    return replace(Settings(), security=Security(tls_cert=made.certificate, tls_key=made.key, tls_client_ca=ca))


async def speaks(channel: grpc.aio.Channel) -> bool:
    async with channel:
        call = SpeechServiceStub(channel).Synthesize(iter([config(), *text("Hello.")]), timeout=60)
        return [response async for response in call][-1].HasField("done")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def plain(
    checkpoint: Checkpoint, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[tuple[House, Papers]]:
    made = papers(tmp_path_factory.mktemp("plain"))
    async with house(checkpoint, settings(made, mutual=False)) as found:
        yield found, made


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def mutual(
    checkpoint: Checkpoint, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[tuple[House, Papers]]:
    made = papers(tmp_path_factory.mktemp("mutual"))
    async with house(checkpoint, settings(made, mutual=True)) as found:
        yield found, made


async def test_both_ports_are_protected(plain: tuple[House, Papers]) -> None:
    found, made = plain
    assert await speaks(made.channel(found.grpc_address))
    assert (await found.fetch("/readyz", tls=made.client()))[0] == 200
    with pytest.raises(ssl.SSLCertVerificationError):
        await found.fetch("/readyz", tls=ssl.create_default_context())
    with pytest.raises(ConnectionError):
        await found.fetch("/readyz")
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await speaks(found.channel())
    assert refused.value.code() is grpc.StatusCode.UNAVAILABLE


async def test_a_shell_speaks_over_tls_and_shows_its_key(checkpoint: Checkpoint, tmp_path: Path) -> None:
    made = papers(tmp_path)
    guarded = keys_file(tmp_path, secret=Key("anna", digest("secret"), owner="anna"))
    wanted = replace(settings(made, mutual=False).security, keys=guarded)
    async with house(checkpoint, replace(Settings(), security=wanted)) as found:
        there = client.Server(found.grpc_address, key="secret", authority=made.authority_file)
        heard = tmp_path / "heard.wav"
        await client.say(there, "Hello.", SessionRequest(seed=1), heard)
        assert soundfile.info(heard).duration > 0.1
        for server, word in (
            (replace(there, key=None), "give its key with --key"),
            (replace(there, key="other"), "does not know the key, or it has expired"),
            (replace(there, authority=None, tls=True), "no service answers"),
            (replace(there, authority=None), "no service answers"),
        ):
            with pytest.raises(ExceptionGroup) as failed:
                await client.say(server, "Hello.", SessionRequest(), heard)
            told = leaf(failed.value)
            assert isinstance(told, client.ServiceFailed) and word in str(told)


async def test_a_renewed_certificate_is_shown_to_new_connections(plain: tuple[House, Papers]) -> None:
    found, made = plain
    other = trustme.CA()
    assert found.entrance.tls is not None
    assert not found.entrance.tls.renew(), "nothing has changed"
    before = made.client()
    async with made.channel(found.grpc_address) as channel:
        call = SpeechServiceStub(channel).Synthesize(timeout=60)
        await call.write(config())
        assert (await call.read()).HasField("started")
        made.issue(other)
        assert found.entrance.tls.renew()
        with pytest.raises(ssl.SSLCertVerificationError):
            await found.fetch("/readyz", tls=before)
        other.cert_pem.write_to_path(str(made.authority_file))
        assert (await found.fetch("/readyz", tls=made.client()))[0] == 200
        assert await speaks(made.channel(found.grpc_address))
        # Who was connected stays so.
        for request in text("Hello there."):
            await call.write(request)
        await call.done_writing()
        while not isinstance(last := await call.read(), type(grpc.aio.EOF)):
            kind = last.WhichOneof("response")
        assert kind == "done"


async def test_a_renewal_that_does_not_fit_changes_nothing(
    plain: tuple[House, Papers], caplog: pytest.LogCaptureFixture
) -> None:
    found, made = plain
    assert found.entrance.tls is not None
    good = made.key.read_bytes()
    trustme.CA().issue_cert("127.0.0.1").private_key_pem.write_to_path(str(made.key))
    assert not found.entrance.tls.renew()
    assert "from before" in caplog.text and str(made.key) in caplog.text
    assert (await found.fetch("/readyz", tls=made.client()))[0] == 200
    made.key.write_bytes(good)
    assert found.entrance.tls.renew()


def on_another_curve(made: Papers) -> None:
    """Put a certificate in place that loads, and that no client takes."""
    key = ec.generate_private_key(ec.SECP256K1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    builder = builder.serial_number(1).not_valid_before(now).not_valid_after(now + timedelta(days=1))
    made.certificate.write_bytes(builder.sign(key, SHA256()).public_bytes(Encoding.PEM))
    made.key.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))


async def test_a_certificate_that_no_client_takes_is_refused(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    made = papers(tmp_path)
    tls = Tls(Files(made.certificate, made.key, None))
    until = tls.valid_until
    on_another_curve(made)
    assert not tls.renew() and "no shared cipher" in caplog.text and "from before" in caplog.text
    assert shakes_hands(tls.context, made.client()) and tls.valid_until == until
    with pytest.raises(InvalidInput, match="no shared cipher"):
        Tls(Files(made.certificate, made.key, None))


async def test_clients_show_a_certificate_where_one_is_wanted(mutual: tuple[House, Papers]) -> None:
    found, made = mutual
    own, stranger = made.authority.issue_cert("client"), trustme.CA().issue_cert("client")
    assert await speaks(made.channel(found.grpc_address, own))
    assert (await found.fetch("/readyz", tls=made.client(own)))[0] == 200
    for wrong in (None, stranger):
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await speaks(made.channel(found.grpc_address, wrong))
        assert refused.value.code() is grpc.StatusCode.UNAVAILABLE
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await found.fetch("/readyz", tls=made.client(wrong))
    assert [Entrance(settings(made, mutual=wanted)).open for wanted in (False, True)] == [True, False]


def shakes_hands(server: ssl.SSLContext, client: ssl.SSLContext) -> bool:
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [client.wrap_bio(down, up, server_hostname="localhost"), server.wrap_bio(up, down, server_side=True)]
    for _ in range(3):
        for end in ends:
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
            except ssl.SSLError:
                return False
    return True


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_an_authority_of_clients_that_is_taken_out_counts_no_more(
    tmp_path: Path, version: ssl.TLSVersion
) -> None:
    made, other = papers(tmp_path), trustme.CA()
    before = made.client(made.authority.issue_cert("client"))
    after = made.client(other.issue_cert("client"))
    before.maximum_version = after.maximum_version = version
    tls = Tls(Files(made.certificate, made.key, made.authority_file))
    assert shakes_hands(tls.context, before) and not shakes_hands(tls.context, after)
    other.cert_pem.write_to_path(str(made.authority_file))
    assert tls.renew()
    assert shakes_hands(tls.context, after) and not shakes_hands(tls.context, before)


async def test_files_that_do_not_fit_are_named(tmp_path: Path) -> None:
    made = papers(tmp_path)
    assert files(Security()) is None
    for security, missing in (
        (Security(tls_cert=made.certificate), "--tls-key"),
        (Security(tls_key=made.key), "--tls-cert"),
        (Security(tls_client_ca=made.authority_file), "--tls-cert"),
    ):
        with pytest.raises(InvalidInput, match=missing):
            files(security)
    with pytest.raises(InvalidInput, match="No such file"):
        Tls(Files(made.certificate, tmp_path / "none", None))
    other = tmp_path / "other.key"
    trustme.CA().issue_cert("x").private_key_pem.write_to_path(str(other))
    with pytest.raises(InvalidInput, match="key values mismatch"):
        Tls(Files(made.certificate, other, None))
    (tmp_path / "empty").touch()
    with pytest.raises(InvalidInput, match=r"TLS cannot use .*: one of them is not PEM"):
        Tls(Files(tmp_path / "empty", made.key, None))
    with pytest.raises(InvalidInput, match="TLS cannot use"):
        Tls(Files(made.certificate, made.key, tmp_path / "empty"))
