"""oscine-client, beside one protobuf or the other."""

import inspect
from typing import Any

from stage import Sounding, Spoken, perform

import oscine_client
import oscine_client.websocket
from oscine_client import Audio, Cancelled, Config, Words


class Client:
    def __init__(self, asked: dict[str, Any]) -> None:
        self.config = Config(voice=asked["voice"], encoding="pcm16", word_times=True)
        self.client: Any
        self.connected = False
        if asked["kind"] == "grpc":
            self.client = oscine_client.AsyncClient(asked["grpc"])
        else:
            self.client = oscine_client.websocket.AsyncClient(f"ws://{asked['http']}")

    async def speak(self, pieces: list[str]) -> Spoken:
        await self.connect()
        audio, words, rate = bytearray(), list[list[Any]](), 24000
        async for event in self.client.speak(pieces, self.config):
            match event:
                case Audio():
                    audio += event.data
                case Words():
                    words += [[word.text, word.start_sample / rate, word.end_sample / rate] for word in event.words]
        return Spoken(bytes(audio), rate, words=words)

    async def interrupt(self, long: list[str], pieces: list[str]) -> Spoken:
        async with await self.open() as call:
            await self.begin(call, long)
            await call.cancel()
            *_, last = [event async for event in call]
            assert isinstance(last, Cancelled), last
        return await self.speak(pieces)

    async def abandon(self, long: list[str], sounding: Sounding) -> None:
        self.left = await self.open()
        await self.begin(self.left, long)
        sounding()

    async def connect(self) -> None:
        if not self.connected:
            self.connected = True
            await self.client.__aenter__()

    async def open(self) -> Any:
        """A call; over a WebSocket opening one is waited for."""
        await self.connect()
        call = self.client.open(self.config)
        return await call if inspect.isawaitable(call) else call

    async def begin(self, call: Any, pieces: list[str]) -> None:
        """Until it sounds, with more text to come."""
        for piece in pieces:
            await call.append(piece)
        async for event in call:
            if isinstance(event, Audio):
                return


perform(Client)
