"""Pipecat's services, each in a pipeline of its own, as an agent runs them."""

import asyncio
from typing import Any

from pipecat.frames.frames import (
    ErrorFrame,
    Frame,
    InterruptionFrame,
    LLMFullResponseEndFrame,
    LLMFullResponseStartFrame,
    LLMTextFrame,
    TTSAudioRawFrame,
    TTSStoppedFrame,
    TTSTextFrame,
)
from pipecat.pipeline.pipeline import Pipeline
from pipecat.pipeline.worker import PipelineParams, PipelineWorker
from pipecat.processors.frame_processor import FrameDirection, FrameProcessor
from pipecat.workers.runner import WorkerRunner
from stage import Sounding, Spoken, perform

RATE = 24000
PATIENT: dict[str, Any] = {"stop_frame_timeout_s": 30.0}
"""On a machine that does much else sound may take longer than the 3 s after which Pipecat gives a turn up."""
QUIET_S = 2.0
"""After a turn was told to have ended: what still comes belongs to it."""


def service(asked: dict[str, Any]) -> FrameProcessor:
    http, grpc, voice = asked["http"], asked["grpc"], asked["voice"]
    match asked["kind"]:
        case "cartesia":
            from pipecat.services.cartesia.tts import CartesiaTTSService

            settings = CartesiaTTSService.Settings(voice=voice)
            return CartesiaTTSService(api_key="any", url=f"ws://{http}/tts/websocket", settings=settings, **PATIENT)
        case "elevenlabs":
            from pipecat.services.elevenlabs.tts import ElevenLabsTTSService

            settings = ElevenLabsTTSService.Settings(voice=voice)
            return ElevenLabsTTSService(api_key="any", url=f"ws://{http}", settings=settings, **PATIENT)
        case "deepgram":
            from pipecat.services.deepgram.tts import DeepgramTTSService

            settings = DeepgramTTSService.Settings(voice=voice)
            return DeepgramTTSService(api_key="any", base_url=f"ws://{http}", settings=settings, **PATIENT)
        case "openai":
            from pipecat.services.openai.tts import OpenAITTSService

            settings = OpenAITTSService.Settings(voice="alloy")  # it takes OpenAI's own names alone
            return OpenAITTSService(api_key="any", base_url=f"http://{http}/v1", settings=settings, **PATIENT)
        case mode:  # nvidia's
            from pipecat.services.nvidia.tts import NvidiaTTSService

            settings = NvidiaTTSService.Settings(voice=voice, synthesis_mode=mode)
            return NvidiaTTSService(server=grpc, use_ssl=False, settings=settings, **PATIENT)


class Ear(FrameProcessor):
    """What comes out of the service."""

    def __init__(self) -> None:
        super().__init__()
        self.listen()

    def listen(self) -> None:
        """From now on, to another turn."""
        self.audio = bytearray()
        self.words: list[tuple[str, int]] = []
        self.sounds, self.stopped, self.moved = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self.errors: list[str] = []

    async def process_frame(self, frame: Frame, direction: FrameDirection) -> None:
        await super().process_frame(frame, direction)
        self.moved.set()
        match frame:
            case TTSAudioRawFrame():
                assert (frame.sample_rate, frame.num_channels) == (RATE, 1)
                self.audio += frame.audio
                self.sounds.set()
            case TTSTextFrame(text=text, pts=int(pts)):
                self.words.append((text, pts))
            case TTSStoppedFrame():
                self.stopped.set()
            case ErrorFrame(error=error):
                self.errors.append(error)
                self.sounds.set()
                self.stopped.set()
        await self.push_frame(frame, direction)

    async def hear_out(self) -> Spoken:
        await self.stopped.wait()
        while True:
            self.moved.clear()
            try:
                await asyncio.wait_for(self.moved.wait(), QUIET_S)
            except TimeoutError:
                break
        assert not self.errors, self.errors
        # Times of Pipecat's are those of its clock: from the first word on they are those of the speech.
        since = self.words[0][1] if self.words else 0
        return Spoken(bytes(self.audio), RATE, words=[[word, (pts - since) / 1e9] for word, pts in self.words])


class Client:
    def __init__(self, asked: dict[str, Any]) -> None:
        self.ear = Ear()
        self.worker = PipelineWorker(
            Pipeline([service(asked), self.ear]),
            params=PipelineParams(audio_out_sample_rate=RATE),
            idle_timeout_secs=None,
        )
        self.running: asyncio.Task[None] | None = None

    async def begin(self, pieces: list[str]) -> None:
        if self.running is None:
            runner = WorkerRunner(handle_sigint=False)
            await runner.add_workers(self.worker)
            self.running = asyncio.create_task(runner.run())
        self.ear.listen()
        texts = [LLMTextFrame(piece) for piece in pieces]
        await self.worker.queue_frames([LLMFullResponseStartFrame(), *texts, LLMFullResponseEndFrame()])

    async def speak(self, pieces: list[str]) -> Spoken:
        await self.begin(pieces)
        return await self.ear.hear_out()

    async def interrupt(self, long: list[str], pieces: list[str]) -> Spoken:
        await self.begin(long)
        await self.ear.sounds.wait()
        await self.worker.queue_frames([InterruptionFrame()])
        # The pipeline takes in what is on its way, as it does while the listener speaks.
        await asyncio.sleep(1)
        return await self.speak(pieces)

    async def abandon(self, long: list[str], sounding: Sounding) -> None:
        await self.begin(long)
        await self.ear.sounds.wait()
        assert not self.ear.errors, self.ear.errors
        sounding()


perform(Client)
