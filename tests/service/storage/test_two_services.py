"""Two whole services that share a bucket: a voice made at one is spoken in at the other, and only by its owner."""

import contextlib
import os
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import grpc
import pytest

from bench.served import served
from oscine_proto.oscine.v1 import voice_pb2 as pb
from oscine_proto.oscine.v1.speech_pb2_grpc import SpeechServiceStub
from oscine_proto.oscine.v1.voice_pb2_grpc import VoiceServiceStub
from oscine_service.cli.main import main
from oscine_service.storage.address import Address
from tests.service.calls import config, text
from tests.service.recordings import recording
from tests.service.waiting import until

pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class Client:
    """Of one service, on behalf of the key's owner."""

    voices: VoiceServiceStub
    speech: SpeechServiceStub
    metadata: tuple[tuple[str, str], ...]

    async def create(self, name: str, audio: bytes) -> None:
        requests = [pb.CreateVoiceRequest(config=pb.CreateVoiceConfig(name=name)), pb.CreateVoiceRequest(audio=audio)]
        await self.voices.CreateVoice(iter(requests), metadata=self.metadata)

    async def names(self) -> set[str]:
        listed = await self.voices.ListVoices(pb.ListVoicesRequest(), metadata=self.metadata)
        return {voice.name for voice in listed.voices}

    async def delete(self, name: str) -> None:
        await self.voices.DeleteVoice(pb.DeleteVoiceRequest(name=name), metadata=self.metadata)

    async def speaks(self, voice: str) -> bool:
        """Whether it has this voice; fails for whatever else is wrong."""
        try:
            call = self.speech.Synthesize(iter([config(voice), *text("Good morning.")]), metadata=self.metadata)
            return sum(len(frame) for response in [each async for each in call] for frame in response.audio.frames) > 0
        except grpc.aio.AioRpcError as error:
            if error.code() is not grpc.StatusCode.NOT_FOUND or voice not in (error.details() or ""):
                raise
            return False


@asynccontextmanager
async def client(address: str, key: str) -> AsyncIterator[Client]:
    async with grpc.aio.insecure_channel(address, (("grpc.enable_http_proxy", 0),)) as channel:
        yield Client(VoiceServiceStub(channel), SpeechServiceStub(channel), (("authorization", f"Bearer {key}"),))


@pytest.fixture
def keys(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, str]:
    """Of two owners, in a file that both services read."""
    made = {}
    for who in ("ann", "bob"):
        assert main(["keys", "add", who, "--grants", "speak,voices", "--keys", str(tmp_path / "keys.json")]) == 0
        made[who] = capsys.readouterr().out.strip().splitlines()[-1].split()[-1]
    return made


async def test_a_voice_made_at_one_service_is_its_owners_at_all(
    s3_address: Address, keys: dict[str, str], tmp_path: Path
) -> None:
    flags = ["--voices", str(s3_address), "--keys", str(tmp_path / "keys.json")]
    with contextlib.ExitStack() as stack:
        # Each with a copy of its own, as two machines have.
        one, two = (
            stack.enter_context(served(*flags, "--voices-copy", str(tmp_path / name))) for name in ("one", "two")
        )
        async with (
            client(one.grpc, keys["ann"]) as here,
            client(two.grpc, keys["ann"]) as there,
            client(two.grpc, keys["bob"]) as bobs,
        ):
            await here.create("mine", recording())
            assert await here.speaks("mine")
            # What was acknowledged is there, though who acknowledged it is gone at once.
            os.kill(one.pid, signal.SIGKILL)

            async def seen() -> bool:
                return "mine" in await there.names()

            async def unseen() -> bool:
                return not await there.speaks("mine")

            await until(seen)
            assert await there.speaks("mine")
            assert "mine" not in await bobs.names() and not await bobs.speaks("mine")
            three = stack.enter_context(served(*flags, "--voices-copy", str(tmp_path / "three")))
            async with client(three.grpc, keys["ann"]) as elsewhere:
                # A machine that starts now has it from its first call on, and deletes it for all.
                assert await elsewhere.speaks("mine")
                await elsewhere.delete("mine")
                assert not await elsewhere.speaks("mine")
                await until(unseen)


@pytest.fixture(autouse=True)
def _ended(tmp_path: Path) -> Iterator[None]:
    yield
    # What keeps a copy ends with its service, even one that was killed.
    left = [path for path in Path("/proc").glob("[0-9]*/cmdline") if str(tmp_path).encode() in _read(path)]
    assert left == []


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:  # ended since
        return b""
