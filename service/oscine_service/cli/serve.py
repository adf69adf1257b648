"""`oscine serve`: an engine behind gRPC, HTTP and WebSocket until it is told to stop."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial

from oscine_codecs import opus
from oscine_codecs.errors import CodecMissing
from oscine_engine.front import Front
from oscine_service import assembled
from oscine_service.cli.early import STOPPED_EARLY
from oscine_service.cli.telling import tell
from oscine_service.compat.riva import Riva
from oscine_service.config import parse
from oscine_service.config.model import Settings
from oscine_service.config.setting import Contradiction
from oscine_service.conversation import Calls
from oscine_service.entrance import Entrance, is_local
from oscine_service.event_loop import lasting
from oscine_service.grpc.server import check_address, serving
from oscine_service.grpc.voices import VoiceService
from oscine_service.http.server import serving as http_serving
from oscine_service.limits import Limits
from oscine_service.signals import heeded
from oscine_service.storage import places
from oscine_service.systemd import Manager
from oscine_service.telephony import audiosocket
from oscine_service.telephony.rtp.exchange import Exchange, Place, exchange
from oscine_service.telephony.rtp.ports import check_host
from oscine_service.unit.engines import Engines
from oscine_service.voices.library import Library
from oscine_service.voices.serving import copying, voices_of

NO_VOICES = "oscine: this model has no voices: calls are refused until it has one; add spk2info.pt to its directory"
OPEN_DOOR = "oscine: anybody who reaches this address may call: make keys with oscine keys, and name their file, --keys"


async def serve(settings: Settings) -> None:
    """Serve until SIGINT, SIGTERM or SIGHUP; running calls then get time to end, unless the signal comes again.

    A signal that comes before calls are taken ends it at once. Raises what keeps the engine from starting: a service
    that cannot speak ends at once, and whoever started it may try again. An engine that is lost later is started again
    for as long as this runs.
    """
    task = asyncio.current_task()
    assert task is not None
    stop, early = asyncio.Event(), asyncio.Event()

    def end_early() -> None:
        early.set()
        task.cancel()

    _on_signals(end_early)
    server = settings.server
    _check_together(settings)
    limits = assembled.patience(settings)
    try:
        opus.require()
    except CodecMissing as error:
        tell(f"oscine: Opus is not served: {error}", sys.stderr)
    _check_addresses(settings)
    if settings.telephony.rtp_host is not None:
        check_host(settings.telephony.rtp_host)
    calls, entrance, manager = Calls(), Entrance(settings), Manager.of(os.environ)
    calls.sinks.most = settings.telephony.most_calls
    try:
        async with (
            copying(settings.engine) as copies,
            manager.watchdog(),
            assembled.engine(settings, limits) as (front, engines),
            voices_of(settings.engine, front.voices, copies, entrance.metrics.registry) as voices,
            entrance.before(front, partial(assembled.states, front, engines)),
            # Before the doors that agents come by, so that it goes last: it waits for what they say.
            _audiosocket(settings, calls, entrance) as lines,
            _rtp(settings, calls) as rtp,
            serving(
                front,
                server.host,
                server.port,
                limits=limits,
                grace_s=server.grace,
                calls=calls,
                interceptors=entrance.interceptors(),
                credentials=entrance.credentials(),
                services=(VoiceService(voices, calls), Riva(front, limits, calls, voices)),
            ) as running,
            _http(settings, front, limits, calls, voices, entrance, rtp) as address,
        ):
            with lasting():
                _on_signals(stop.set)
                tell(f"serving on {running.address}, {_about(front, engines)}")
                if address is not None:
                    tell(f"HTTP and WebSocket on {address}")
                if lines is not None:
                    tell(f"AudioSocket on {lines}")
                if entrance.open and not is_local(server.host):
                    tell(OPEN_DOOR, sys.stderr)
                if not front.voices:
                    tell(NO_VOICES, sys.stderr)
                manager.ready(f"serving on {running.address}")
                await stop.wait()
                manager.stopping("running calls may end")
                calls.close()
                _on_signals(task.cancel)
                if engines is not None:
                    engines.close()
                tell("stopping: running calls may end; signal again to cut them off")
    except asyncio.CancelledError:
        if not early.is_set():
            raise
        tell(STOPPED_EARLY)


def _check_together(settings: Settings) -> None:
    """Raises Contradiction for settings that would be without effect beside others."""
    engine, telephony = settings.engine, settings.telephony
    if settings.server.in_process and len(engine.device) > 1:
        raise Contradiction(f"--in-process has one engine: leave it out, or name one of {', '.join(engine.device)}")
    if engine.voices_copy is not None and places.shared(engine) is None:
        raise Contradiction("--voices-copy is of a store that several share: name its address by --voices")
    if telephony.rtp_public is not None and telephony.rtp_host is None:
        raise Contradiction("--rtp-public: no calls over RTP are taken without --rtp-host")


def _check_addresses(settings: Settings) -> None:
    """Whether all ports can be had, known before an engine has been loaded. Raises InvalidInput."""
    server, telephony = settings.server, settings.telephony
    taken: dict[tuple[str, int], str] = {}
    for flag, host, port in (
        ("--port", server.host, server.port),
        ("--http-port", server.host, server.http_port),
        ("--audiosocket-port", telephony.audiosocket_host, telephony.audiosocket_port),
    ):
        if port is None:
            continue
        if port and (other := taken.setdefault((host, port), flag)) != flag:
            raise Contradiction(f"{other} and {flag} are both {port}: give each a port of its own")
        check_address(host, port, flag)


def _on_signals(act: Callable[[], object]) -> None:
    for name in heeded():
        asyncio.get_running_loop().add_signal_handler(name, act)


def _about(front: Front, engines: Engines | None) -> str:
    voices = f"voices: {', '.join(front.voices) or 'none'}"
    if engines is None or (count := len(engines.supervisors)) == 1:
        return voices
    return f"{voices}, engines: {engines.ready} of {count} ready"


@asynccontextmanager
async def _audiosocket(settings: Settings, calls: Calls, entrance: Entrance) -> AsyncIterator[str | None]:
    """The address where AudioSocket is taken, if it is."""
    telephony = settings.telephony
    if telephony.audiosocket_port is None:
        yield None
        return
    async with audiosocket.serving(
        telephony.audiosocket_host, telephony.audiosocket_port, calls, entrance.carriers_owner
    ) as address:
        yield address


@asynccontextmanager
async def _rtp(settings: Settings, calls: Calls) -> AsyncIterator[Exchange | None]:
    """Where calls over RTP are taken, if they are."""
    telephony = settings.telephony
    if telephony.rtp_host is None:
        yield None
        return
    ports = parse.ports_of(telephony.rtp_ports)
    place = Place(telephony.rtp_host, telephony.rtp_public or "", ports, telephony.rtp_timeout)
    async with exchange(place, calls.sinks) as rtp:
        yield rtp


@asynccontextmanager
async def _http(
    settings: Settings,
    front: Front,
    limits: Limits,
    calls: Calls,
    voices: Library,
    entrance: Entrance,
    rtp: Exchange | None,
) -> AsyncIterator[str | None]:
    """The address of the HTTP port, if there is one."""
    server = settings.server
    if server.http_port is None:
        yield None
        return
    app = assembled.web(settings, front, limits, calls, voices, entrance, rtp)
    tls = entrance.tls.context if entrance.tls is not None else None
    async with http_serving(
        app, server.host, server.http_port, limits=limits, grace_s=server.grace, calls=calls, tls=tls
    ) as address:
        yield address
