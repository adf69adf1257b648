"""TLS for both ports, from files that may be renewed while it runs.

New connections get what stands in the files; those that are open keep what they have. With `tls_client_ca` clients must
show a certificate that it has signed.
"""

import asyncio
import logging
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias, cast

import grpc

from oscine_engine.errors import InvalidInput
from oscine_service.config.model import Security
from oscine_service.config.setting import Contradiction

log = logging.getLogger(__name__)

LOOK_S = 10.0
"""Between two looks at the files."""

Stamp: TypeAlias = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Files:
    """PEM files. client_ca: None where clients need no certificate."""

    certificate: Path
    key: Path
    client_ca: Path | None

    def stamp(self) -> Stamp:
        """Another one when a file has changed. Raises OSError."""
        about = [path.stat() for path in (self.certificate, self.key, self.client_ca) if path is not None]
        return tuple((each.st_mtime_ns, each.st_ino) for each in about)


def files(security: Security) -> Files | None:
    """None without TLS. Raises Contradiction where something is missing."""
    certificate, key, ca = security.tls_cert, security.tls_key, security.tls_client_ca
    if certificate is None and key is None and ca is None:
        return None
    if certificate is None or key is None:
        missing = "--tls-cert" if certificate is None else "--tls-key"
        raise Contradiction(f"{missing} is missing: TLS needs a certificate and its key")
    return Files(certificate, key, ca)


class Tls:
    """What both ports are protected by. Raises InvalidInput for files that do not fit."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._stamp = _stamp(files)
        self._newest = _context(files)
        self.context = _context(files)
        """For HTTP. New connections are handed over to the newest one."""
        self.context.sni_callback = self._hand_over
        self._for_grpc = _configuration(files)
        self._told: object = None
        self.valid_until = expires(files)
        """Of what new connections get, in seconds of the epoch; None for what was not valid when it was read."""

    def credentials(self) -> grpc.ServerCredentials:
        """For gRPC, which asks for what is new with each connection, in threads of its own."""
        self._told = self._for_grpc

        def newer() -> grpc.ServerCertificateConfiguration | None:
            config = self._for_grpc
            if config is self._told:
                return None
            self._told = config
            return config

        # None stands for "as before", which the stubs do not know.
        fetch = cast("Callable[[], grpc.ServerCertificateConfiguration]", newer)
        return grpc.dynamic_ssl_server_credentials(self._for_grpc, fetch, self._files.client_ca is not None)

    def renew(self) -> bool:
        """Load the files again if they have changed; whether they had. What does not fit is left, and logged."""
        try:
            stamp = _stamp(self._files)
            if stamp == self._stamp:
                return False
            newest, for_grpc, until = _context(self._files), _configuration(self._files), expires(self._files)
        except InvalidInput as error:
            log.error("%s; connections get the certificate from before", error)
            return False
        self._stamp, self._newest, self._for_grpc, self.valid_until = stamp, newest, for_grpc, until
        log.info("the certificate has been renewed")
        return True

    def _hand_over(self, connection: ssl.SSLObject, name: str | None, context: ssl.SSLContext) -> None:
        """Called with each greeting. To load files into a context again would take no authority out of it."""
        connection.context = self._newest

    async def renewing(self) -> None:
        """Do so for as long as it runs."""
        while True:
            await asyncio.sleep(LOOK_S)
            await asyncio.to_thread(self.renew)


def expires(files: Files) -> float | None:
    """Until when a certificate is valid, in seconds of the epoch; None for one that is not now.

    Known by shaking hands with ourselves, in memory: the standard library reads no certificate otherwise. Raises
    InvalidInput for files by which nobody shakes hands.
    """
    with _named(files):
        return _expires(files)


def _expires(files: Files) -> float | None:
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(files.certificate, files.key)
    client = ssl.create_default_context(cafile=str(files.certificate))
    client.check_hostname = False
    client.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [client.wrap_bio(down, up), server.wrap_bio(up, down, server_side=True)]
    try:
        for _ in range(6):
            for end in ends:
                try:
                    end.do_handshake()
                except ssl.SSLWantReadError:
                    continue
    except ssl.SSLCertVerificationError:
        return None
    certificate = ends[0].getpeercert()
    return ssl.cert_time_to_seconds(str(certificate["notAfter"])) if certificate else None


def _stamp(files: Files) -> Stamp:
    with _named(files):
        return files.stamp()


def _context(files: Files) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    with _named(files):
        context.load_cert_chain(files.certificate, files.key, password=_refuse_password)
        if files.client_ca is not None:
            context.load_verify_locations(files.client_ca)
            context.verify_mode = ssl.CERT_REQUIRED
            # A session that is taken up again would not show its certificate to newer authorities.
            context.num_tickets = 0
            context.options |= ssl.OP_NO_TICKET
    return context


def _configuration(files: Files) -> grpc.ServerCertificateConfiguration:
    with _named(files):
        pair = (files.key.read_bytes(), files.certificate.read_bytes())
        ca = files.client_ca.read_bytes() if files.client_ca is not None else None
    return grpc.ssl_server_certificate_configuration([pair], root_certificates=ca)


def _refuse_password() -> str:
    raise InvalidInput("the key of --tls-key is encrypted: write it without a passphrase, readable by the service only")


@contextmanager
def _named(files: Files) -> Iterator[None]:
    """Errors say which files they are about."""
    try:
        yield
    except ssl.SSLError as error:
        ca = f", {files.client_ca}" if files.client_ca is not None else ""
        # OpenSSL has no reason to tell for what is not PEM at all.
        reason = error.reason.replace("_", " ").lower() if error.reason else "one of them is not PEM, or is cut off"
        raise InvalidInput(f"TLS cannot use {files.certificate} with {files.key}{ca}: {reason}") from error
    except OSError as error:
        named = [path for path in (files.certificate, files.key, files.client_ca) if path is not None]
        where = error.filename or next((path for path in named if not path.is_file()), files.certificate)
        raise InvalidInput(f"TLS cannot read {where}: {error.strerror}") from error
