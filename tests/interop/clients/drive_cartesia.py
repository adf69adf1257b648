"""Cartesia's own client: contexts on one WebSocket."""

from typing import Any

from cartesia import AsyncCartesia
from stage import Sounding, Spoken, perform

RATE = 24000


class Client:
    def __init__(self, asked: dict[str, Any]) -> None:
        http = asked["http"]
        self.voice = asked["voice"]
        self.client = AsyncCartesia(
            api_key="any", base_url=f"http://{http}", websocket_base_url=f"ws://{http}", max_retries=0
        )
        self.connection: Any = None

    async def begin(self, pieces: list[str]) -> Any:
        if self.connection is None:
            self.connection = await self.client.tts.websocket_connect().__aenter__()
        format = {"container": "raw", "encoding": "pcm_s16le", "sample_rate": RATE}
        context = self.connection.context(
            model_id="sonic-3", voice=self.voice, output_format=format, add_timestamps=True
        )
        for piece in pieces:
            await context.push(piece)
        await context.no_more_inputs()
        return context

    async def events(self, context: Any) -> Any:
        async for event in context.receive():
            assert event.type != "error", event
            # Of contexts that were cancelled it hands on what was on its way.
            if event.context_id == context._context_id:
                yield event

    async def speak(self, pieces: list[str]) -> Spoken:
        audio, words = bytearray(), list[list[Any]]()
        async for event in self.events(await self.begin(pieces)):
            if event.type == "chunk":
                audio += event.audio
            elif event.type == "timestamps":
                times = event.word_timestamps
                words += map(list, zip(times.words, times.start, times.end, strict=True))
        return Spoken(bytes(audio), RATE, words=words)

    async def interrupt(self, long: list[str], pieces: list[str]) -> Spoken:
        context = await self.begin(long)
        await anext(self.events(context))
        await context.cancel()
        return await self.speak(pieces)

    async def abandon(self, long: list[str], sounding: Sounding) -> None:
        await anext(self.events(await self.begin(long)))
        sounding()


perform(Client)
