"""Each alert is caused in a real service and seen by a real Prometheus, whose rules look at seconds, not minutes."""

import asyncio
import contextlib
import datetime
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import grpc
import pytest
import trustme

from bench.chaos import engine_of
from bench.served import Served, served
from oscine_proto.oscine.v1 import speech_pb2 as pb
from oscine_proto.oscine.v1.speech_pb2_grpc import SpeechServiceStub
from oscine_service.security.keys import Key
from tests.operating.prometheus import Prometheus, watching
from tests.service.calls import FLUSH, config, converse, played, text
from tests.service.security.conftest import keys_file

pytestmark = pytest.mark.operating

ANY = ("--utilisation", "inf")
"""Let in as many as there are places for, whatever this machine can do."""
OPTIONS = (("grpc.enable_http_proxy", 0),)
LONG = "This goes on and on, as long as anybody cares to listen to it, and then some more. " * 20


@dataclass(frozen=True)
class House:
    """A service, and who watches it."""

    served: Served
    prometheus: Prometheus
    speech: SpeechServiceStub

    @property
    def engine(self) -> int:
        return engine_of(self.served.pid)

    async def call(self, words: str = "Hello.") -> grpc.StatusCode:
        return (await converse(self.speech, [config(), *text(words)])).code


@asynccontextmanager
async def house(model: Path, folder: Path, *flags: str, before: tuple[str, ...] = ()) -> AsyncIterator[House]:
    with served(*ANY, *flags, model=model, http=True, before=before, log=folder / "log") as service:
        assert service.http is not None
        with watching(folder, service.http) as prometheus:
            async with grpc.aio.insecure_channel(service.grpc, OPTIONS) as channel:
                await prometheus.until_seen('up{job="oscine"} == 1')
                yield House(service, prometheus, SpeechServiceStub(channel))


@asynccontextmanager
async def going_on(work: Callable[[], Awaitable[object]], pause_s: float = 0.1) -> AsyncIterator[None]:
    """`work` again and again, while the block runs."""

    async def repeat() -> None:
        while True:
            await work()
            await asyncio.sleep(pause_s)

    task = asyncio.create_task(repeat())
    try:
        yield
        if task.done():
            task.result()
    finally:
        task.cancel()
        await asyncio.wait([task])


async def check(found: House, name: str, cause: Callable[[], Awaitable[object]], pause_s: float = 0.1) -> None:
    """The alert fires because of what is done, and no longer when that is over."""
    assert not found.prometheus.firing(name)
    async with going_on(cause, pause_s):
        await found.prometheus.until(name)
    await found.prometheus.until(name, fires=False)


@contextmanager
def stopped(pid: int) -> Iterator[None]:
    """A process that gets no turn meanwhile."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


async def held(pid: int, seconds: float) -> None:
    with stopped(pid):
        await asyncio.sleep(seconds)


async def test_a_service_that_is_killed(model: Path, tmp_path: Path) -> None:
    async with house(model, tmp_path) as found:
        await found.prometheus.until("OscineDown", fires=False)  # it may have been looked for before it was there
        found.served.process.kill()
        (labels,) = await found.prometheus.until("OscineDown")
        assert labels["instance"] == found.served.http and labels["severity"] == "page"


async def test_an_engine_that_does_not_come_back(model: Path, tmp_path: Path) -> None:
    own, aside = tmp_path / "model", tmp_path / "aside"
    shutil.copytree(model, own)
    async with house(own, tmp_path) as found:
        assert not found.prometheus.firing("OscineEngineDown")
        own.rename(aside)
        os.kill(found.engine, signal.SIGKILL)
        await found.prometheus.until("OscineEngineDown")
        aside.rename(own)
        await found.prometheus.until_seen("oscine_engine_up == 1")
        await found.prometheus.until("OscineEngineDown", fires=False)
        assert await found.call() is grpc.StatusCode.OK


async def test_an_engine_that_is_lost_again_and_again_under_its_calls(model: Path, tmp_path: Path) -> None:
    async with house(model, tmp_path) as found:

        async def lose_it() -> None:
            await found.call()
            running = [asyncio.create_task(found.call(LONG)) for _ in range(2)]
            await asyncio.sleep(0.5)
            with contextlib.suppress(RuntimeError, ProcessLookupError):  # it is being started again
                os.kill(found.engine, signal.SIGKILL)
            await asyncio.wait(running)

        assert not found.prometheus.firing("OscineEngineRestarts")
        async with going_on(lose_it):
            await found.prometheus.until("OscineCallsFail")
            await found.prometheus.until("OscineEngineRestarts")
        await found.prometheus.until("OscineCallsFail", fires=False)
        await found.prometheus.until("OscineEngineRestarts", fires=False)


async def test_an_engine_that_computes_too_slowly(model: Path, tmp_path: Path) -> None:
    """It gets a turn now and then while calls begin, and none for a while when they speak."""
    async with house(model, tmp_path) as found:

        async def hold() -> None:
            async with going_on(lambda: held(found.engine, 0.6), pause_s=0.01):
                calls = [asyncio.create_task(found.call(LONG[:400])) for _ in range(2)]
                await asyncio.sleep(2.0)
            await asyncio.sleep(0.5)
            await held(found.engine, 4.0)
            await asyncio.wait(calls)

        assert not found.prometheus.firing("OscineUnderruns")
        async with going_on(hold):
            await found.prometheus.until("OscineFirstPacketSlow")
            await found.prometheus.until("OscineUnderruns")
        await found.prometheus.until("OscineFirstPacketSlow", fires=False)
        await found.prometheus.until("OscineUnderruns", fires=False)


async def test_a_service_that_is_full(model: Path, tmp_path: Path) -> None:
    async with house(model, tmp_path, "--max-streams", "1") as found:
        await found.call()
        async with going_on(lambda: found.call(LONG)):
            await check(found, "OscineRefusals", found.call)


async def test_a_language_model_that_is_slow(model: Path, tmp_path: Path) -> None:
    async with house(model, tmp_path) as found:

        async def write_slowly() -> None:
            requests = [config(mode=pb.MODE_INTERLEAVED), *text(*("and then some more ",) * 5)]
            await converse(found.speech, requests, pause_s=4.0)

        await check(found, "OscineStarved", write_slowly)


async def test_clients_that_take_nothing(model: Path, tmp_path: Path) -> None:
    async with house(model, tmp_path, "--write-timeout", "1") as found:
        ended = 0

        async def take_nothing() -> None:
            nonlocal ended
            audio = pb.AudioFormat(encoding=pb.ENCODING_PCM16, sample_rate=48000)
            call = found.speech.Synthesize()
            await call.write(pb.SynthesizeRequest(config=pb.SynthesizeConfig(audio=audio)))
            await call.write(pb.SynthesizeRequest(text=LONG))
            assert (await call.read()).HasField("started")
            await found.prometheus.until_seen(f'oscine_calls_total{{outcome="stalled"}} > {ended}')
            ended += 1
            call.cancel()

        await found.call()
        await check(found, "OscineClientsStall", take_nothing)


async def test_a_service_process_that_gets_no_turn(model: Path, tmp_path: Path) -> None:
    async with house(model, tmp_path) as found:

        async def hold() -> None:
            with stopped(found.served.pid):
                await asyncio.sleep(0.4)

        await check(found, "OscineServiceBusy", hold, 0.4)


async def test_files_that_run_out(model: Path, tmp_path: Path) -> None:
    most = 200
    async with house(model, tmp_path, before=("prlimit", f"--nofile={most}")) as found:
        host, _, port = str(found.served.http).rpartition(":")
        assert not found.prometheus.firing("OscineFilesShort")
        with contextlib.ExitStack() as open_ones:
            # Prometheus has to get in, too: it keeps its connection.
            for _ in range(int(most * 0.75)):
                open_ones.enter_context(socket.create_connection((host, int(port))))
            await found.prometheus.until("OscineFilesShort")
        await found.prometheus.until("OscineFilesShort", fires=False)


GROUPS = Path("/sys/fs/cgroup")


@contextmanager
def group_of_memory(limit: int) -> Iterator[tuple[str, ...]]:
    """A command that others run behind, in a control group with so much memory."""
    first = GROUPS / "memory"
    root, name = (first, "memory.limit_in_bytes") if first.is_dir() else (GROUPS, "memory.max")
    group = root / f"oscine-test-{os.getpid()}"
    try:
        group.mkdir()
    except OSError as error:
        pytest.skip(f"needs a machine that lets tests make control groups: {error}")
    try:
        try:
            (group / name).write_text(str(limit))
        except OSError as error:
            pytest.skip(f"needs control groups that count memory: {error}")
        yield ("sh", "-c", f'echo $$ > {group}/cgroup.procs && exec "$@"', "sh")
    finally:
        group.rmdir()


@contextmanager
def taking(size: int, inside: tuple[str, ...]) -> Iterator[None]:
    """A process that has so many bytes."""
    program = f"import sys; taken = b'x' * {size}; print('taken', flush=True); sys.stdin.read()"
    with subprocess.Popen(
        (*inside, sys.executable, "-c", program), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None and other.stdin is not None
        assert other.stdout.readline() == b"taken\n"
        yield
        other.stdin.close()


async def test_memory_that_runs_out(model: Path, tmp_path: Path) -> None:
    limit = 2 << 30
    with group_of_memory(limit) as inside:
        async with house(model, tmp_path, before=inside) as found:
            (told,) = found.prometheus.query("oscine_memory_limit_bytes")
            assert float(told["value"][1]) == limit
            assert not found.prometheus.firing("OscineMemoryLow")
            (used,) = found.prometheus.query("oscine_memory_used_bytes")
            # Somebody else beside the service takes nearly all that is left.
            size = int(limit * 0.95 - float(used["value"][1]))
            with taking(size, inside):
                await found.prometheus.until("OscineMemoryLow")
            await found.prometheus.until("OscineMemoryLow", fires=False)


async def test_streams_that_hold_most_pages(model: Path, tmp_path: Path) -> None:
    """The only stream that there may be says a sentence as long as any, and its listener pauses before the end."""
    paused_at = 15 * 24000
    async with house(model, tmp_path, "--max-streams", "1") as found:
        assert not found.prometheus.firing("OscinePagesShort")
        call = found.speech.Synthesize()
        for request in (config(), played(0), *text(" ".join(["strength"] * 200)), FLUSH):
            await call.write(request)
        heard = 0
        while heard < paused_at:
            response = await call.read()
            assert response is not grpc.aio.EOF
            heard += response.audio.samples
            await call.write(played(min(heard, paused_at)))
        await found.prometheus.until("OscinePagesShort")
        call.cancel()
        await found.prometheus.until("OscinePagesShort", fires=False)


@contextmanager
def small_disk(folder: Path) -> Iterator[Path]:
    """Of 16 MiB."""
    folder.mkdir()
    if subprocess.run(("mount", "-t", "tmpfs", "-o", "size=16m", "none", folder)).returncode:
        pytest.skip("needs a machine that lets tests mount a small disk")
    try:
        yield folder
    finally:
        subprocess.run(("umount", folder), check=True)


async def test_a_disk_of_voices_that_fills(model: Path, tmp_path: Path) -> None:
    with small_disk(tmp_path / "voices") as store:
        async with house(model, tmp_path, "--voices", str(store)) as found:
            assert not found.prometheus.firing("OscineStoreDiskLow")
            filling = store / "other"
            filling.write_bytes(bytes(15 << 20))
            await found.prometheus.until("OscineStoreDiskLow")
            filling.unlink()
            await found.prometheus.until("OscineStoreDiskLow", fires=False)


async def test_shared_voices_that_are_away(model: Path, tmp_path: Path) -> None:
    shared, aside = tmp_path / "shared", tmp_path / "aside"
    shared.mkdir()
    flags = ("--voices", f"file://{shared}", "--voices-copy", str(tmp_path / "copy"))
    async with house(model, tmp_path, *flags) as found:
        await found.prometheus.until_seen("oscine_shared_voices_up == 1")
        assert not found.prometheus.firing("OscineSharedVoicesAway")
        # A folder that just goes cannot be told from one that nothing was ever kept in; one that cannot be read can.
        shared.rename(aside)
        shared.symlink_to(shared)
        await found.prometheus.until("OscineSharedVoicesAway")
        shared.unlink()
        aside.rename(shared)
        await found.prometheus.until("OscineSharedVoicesAway", fires=False)


async def test_certificates_and_keys(model: Path, tmp_path: Path) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))

    def certify(days: int) -> None:
        until = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=days)
        made = authority.issue_cert("localhost", "127.0.0.1", not_after=until)
        made.cert_chain_pems[0].write_to_path(str(tmp_path / "cert.pem"))
        made.private_key_pem.write_to_path(str(tmp_path / "key.pem"))

    certify(90)
    keys = keys_file(tmp_path, one=Key("anna", "0" * 64), watch=Key("watch", "0" * 64, grants=("metrics",)))
    flags = ("--keys", str(keys), "--tls-cert", str(tmp_path / "cert.pem"), "--tls-key", str(tmp_path / "key.pem"))
    job = {"scheme": "https", "tls_config": {"ca_file": "ca.pem"}, "authorization": {"credentials": "watch"}}
    with served(*ANY, *flags, model=model, http=True, log=tmp_path / "log") as service:
        assert service.http is not None
        with watching(tmp_path, service.http, **job) as prometheus:
            await prometheus.until_seen("oscine_keys_readable == 1")
            for name in ("OscineCertificateExpires", "OscineKeysUnreadable", "OscineUnauthenticated"):
                assert not prometheus.firing(name)
            certify(10)
            kept = keys.read_text()
            keys.write_text("{")
            credentials = grpc.ssl_channel_credentials((tmp_path / "ca.pem").read_bytes())
            async with grpc.aio.secure_channel(service.grpc, credentials, OPTIONS) as channel:
                speech = SpeechServiceStub(channel)
                async with going_on(lambda: converse(speech, [config(), *text("Hello.")]), 0.02):
                    await prometheus.until("OscineUnauthenticated")
            await prometheus.until("OscineKeysUnreadable")
            keys.write_text(kept)
            await prometheus.until("OscineKeysUnreadable", fires=False)
            await prometheus.until("OscineUnauthenticated", fires=False)
            await prometheus.until("OscineCertificateExpires")
            certify(90)
            await prometheus.until("OscineCertificateExpires", fires=False)
