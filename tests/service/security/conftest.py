"""A whole service behind its doors, over a small model of random weights."""

import asyncio
import http.client
import math
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import grpc

from oscine_engine.checkpoint.load import Checkpoint
from oscine_engine.engine import Engine, EngineSettings
from oscine_service.config.model import Settings
from oscine_service.conversation import Calls
from oscine_service.entrance import Entrance
from oscine_service.grpc.server import serving as serving_grpc
from oscine_service.http import openai, openai_names
from oscine_service.http.app import application
from oscine_service.http.server import serving as serving_http
from oscine_service.limits import Limits
from oscine_service.security import keys
from oscine_service.security.keys import Key


@dataclass(frozen=True)
class House:
    grpc_address: str
    http_address: str
    entrance: Entrance

    def channel(self) -> grpc.aio.Channel:
        return grpc.aio.insecure_channel(self.grpc_address, (("grpc.enable_http_proxy", 0),))

    async def fetch(
        self,
        path: str,
        headers: Mapping[str, str] | None = None,
        *,
        method: str = "GET",
        body: bytes | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> tuple[int, Mapping[str, str], bytes]:
        """Status, headers by lower-case name and body of a response."""
        return await asyncio.to_thread(self._fetch, path, headers or {}, method, body, tls)

    def _fetch(
        self, path: str, headers: Mapping[str, str], method: str, body: bytes | None, tls: ssl.SSLContext | None
    ) -> tuple[int, Mapping[str, str], bytes]:
        to = http.client.HTTPConnection if tls is None else http.client.HTTPSConnection
        more = {} if tls is None else {"context": tls}
        connection = to(self.http_address, timeout=30, **more)  # type: ignore[arg-type]
        try:
            connection.request(method, path, body, dict(headers))
            response = connection.getresponse()
            return response.status, {name.lower(): value for name, value in response.getheaders()}, response.read()
        finally:
            connection.close()


@asynccontextmanager
async def house(checkpoint: Checkpoint, settings: Settings) -> AsyncIterator[House]:
    entrance, limits, calls = Entrance(settings), Limits(), Calls()
    engine = Engine(checkpoint, EngineSettings(max_streams=4, utilisation=math.inf, session=limits.session))
    speech = openai.routes(engine, limits, calls, openai_names.mapping(settings.server.openai_voices))
    async with (
        engine,
        entrance.before(engine, lambda: []),
        serving_grpc(
            engine,
            "127.0.0.1",
            0,
            limits=limits,
            grace_s=0,
            calls=calls,
            interceptors=entrance.interceptors(),
            credentials=entrance.credentials(),
        ) as grpc_server,
        serving_http(
            entrance.around(application(engine, limits, calls, routes=[*speech, *entrance.routes()])),
            "127.0.0.1",
            0,
            limits=limits,
            grace_s=0,
            calls=calls,
            tls=entrance.tls.context if entrance.tls is not None else None,
        ) as http_address,
    ):
        yield House(grpc_server.address, http_address, entrance)


def keys_file(folder: Path, **secrets: Key) -> Path:
    """A file of keys, by their secrets; the digests are filled in."""
    from dataclasses import replace

    path = folder / "keys.json"
    with keys.changing(path) as found:
        for secret, key in secrets.items():
            found[key.name] = replace(key, sha256=keys.digest(secret))
    return path
