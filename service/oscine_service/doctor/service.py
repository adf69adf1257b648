"""What is set: model, voices, ports, keys, certificates."""

import importlib.util
import time
from collections.abc import Iterator
from pathlib import Path

from oscine_engine.errors import OscineError
from oscine_service.config.model import Settings
from oscine_service.doctor import answering, shared_voices
from oscine_service.doctor.finding import Finding, advice, fault, good
from oscine_service.entrance import is_local
from oscine_service.grpc.server import check_address
from oscine_service.security import keys, tls
from oscine_service.security.tokens import Mint
from oscine_service.storage import places
from oscine_service.storage.address import Address

SOON_S = 14 * 24 * 3600


def model(settings: Settings) -> Iterator[Finding]:
    from oscine_engine.front import read_front_end

    engine = settings.engine
    name = "the embedded voice" if engine.model is None else str(engine.model)
    try:
        read_front_end(engine.model)
    except OscineError as error:
        yield fault("model", str(error), "name a model directory with --model, or none for the embedded voice")
        return
    yield good("model", name)
    if engine.vllm is not None:
        if importlib.util.find_spec("vllm") is None:
            yield fault("vllm", "is not installed", "pip install 'oscine[vllm]'")
        elif not engine.vllm.is_dir():
            yield fault("vllm", f"{engine.vllm} is no directory", "oscine convert --to vllm makes one")


def voices(settings: Settings) -> Iterator[Finding]:
    from oscine_engine.voices.store import VoiceStore

    folder = settings.engine.voices
    if isinstance(folder, Address):
        yield from shared_voices.examined(folder, places.copy_of(folder, settings.engine.voices_copy))
        return
    if folder is None:
        return
    if not folder.is_dir():
        yield advice("voices", f"{folder} is not there yet: it is made with the first voice", f"mkdir -p {folder}")
        return
    try:
        count = len(VoiceStore(folder).list())
    except OscineError as error:
        yield fault("voices", str(error), "give the service's user a folder of a local disk that it may write to")
    else:
        yield good("voices", f"{count} in {folder}")


def ports(settings: Settings) -> Iterator[Finding]:
    server = settings.server
    for name, port, ours in (
        ("port", server.port, answering.over_grpc),
        ("http_port", server.http_port, answering.over_http),
    ):
        if port is None:
            continue
        try:
            check_address(server.host, port, f"--{name.replace('_', '-')}")
        except OscineError as error:
            if ours(settings):
                yield good("ports", f"{server.host}:{port} is in use, by a service that answers as Oscine")
                continue
            yield fault("ports", str(error), f"ss -ltnp says who has it; or choose another {name}")
        else:
            yield good("ports", f"{server.host}:{port} is free" if port else f"{name}: any that is free")


def exposure(settings: Settings) -> Iterator[Finding]:
    """Whether strangers may use it, or listen in."""
    server, security = settings.server, settings.security
    if is_local(server.host):
        return
    if security.keys is None and security.tls_client_ca is None:
        yield advice(
            "door",
            f"anybody who reaches {server.host} may use the service",
            "make a key: oscine keys add NAME --keys FILE",
        )
    if security.tls_cert is None:
        yield advice(
            "door",
            "what is said, and keys, can be read on the way",
            "--tls-cert and --tls-key, unless a proxy in front does that",
        )


def credentials(settings: Settings) -> Iterator[Finding]:
    security = settings.security
    if security.keys is not None:
        try:
            found = keys.read(security.keys)
        except OscineError as error:
            yield fault("keys", str(error), "oscine keys add NAME makes the file")
        else:
            yield from _private("keys", security.keys)
            gone = [key.name for key in found.values() if key.expires_at <= time.time()]
            if gone:
                yield advice("keys", f"expired: {', '.join(gone)}", "oscine keys remove NAME")
            if len(found) == len(gone):
                yield fault("keys", "none is valid: nobody can call", "oscine keys add NAME")
            else:
                yield good("keys", f"{len(found) - len(gone)} in {security.keys}")
    if security.token_secret is not None:
        try:
            Mint.of(security.token_secret)
        except OscineError as error:
            yield fault("tokens", str(error), f"openssl rand -hex 32 > {security.token_secret}")
        else:
            yield from _private("tokens", security.token_secret)
            yield good("tokens", "the secret can be read")


def _private(about: str, path: Path) -> Iterator[Finding]:
    # A group may read it: by that a file of root's is given to the service's user.
    if path.stat().st_mode & 0o037:
        yield advice(about, f"others may read {path}, or change it", f"chmod g-wx,o= {path}")


def certificates(settings: Settings) -> Iterator[Finding]:
    try:
        files = tls.files(settings.security)
        if files is None:
            return
        tls.Tls(files)
    except OscineError as error:
        yield fault("tls", str(error), "give it a certificate chain and its key, both in PEM")
        return
    yield from _private("tls", files.key)
    until = tls.expires(files)
    if until is None:
        yield fault("tls", f"{files.certificate} has expired, or is not valid yet", "renew it")
    elif until < time.time() + SOON_S:
        yield advice("tls", f"{files.certificate} expires in {_days(until)} days", "renew it")
    else:
        yield good("tls", f"the certificate is valid for {_days(until)} days more")


def _days(until: float) -> int:
    return max(0, int((until - time.time()) / 86400))


def traces(settings: Settings) -> Iterator[Finding]:
    if settings.observe.traces and importlib.util.find_spec("opentelemetry.exporter.otlp.proto.http") is None:
        yield fault("traces", "OpenTelemetry is not installed", "pip install 'oscine[traces]'")
