"""Deepgram's own client: turns on one WebSocket."""

from typing import Any

from deepgram import AsyncDeepgramClient
from deepgram.environment import DeepgramClientEnvironment
from deepgram.speak.v1.types import SpeakV1Text
from stage import Sounding, Spoken, perform

RATE = 24000


class Client:
    def __init__(self, asked: dict[str, Any]) -> None:
        http, ws = f"http://{asked['http']}", f"ws://{asked['http']}"
        where = DeepgramClientEnvironment(base=http, production=ws, agent=ws, agent_rest=http)
        self.client = AsyncDeepgramClient(api_key="any", environment=where)
        self.voice = asked["voice"]
        self.connection: Any = None

    async def begin(self, pieces: list[str]) -> None:
        if self.connection is None:
            connecting = self.client.speak.v1.connect(model=self.voice, encoding="linear16", sample_rate=str(RATE))
            self.connecting, self.connection = connecting, await connecting.__aenter__()
        for piece in pieces:
            await self.connection.send_text(SpeakV1Text(type="Speak", text=piece))
        await self.connection.send_flush()

    async def sound(self, until: str = "") -> bytes:
        """The audio before a message of that type; the next audio if there is none to wait for.

        Its type is told by its field: the client makes a SpeakV1Flushed of a Cleared.
        """
        audio = bytearray()
        while True:
            event = await self.connection.recv()
            if isinstance(event, bytes):
                audio += event
                if not until:
                    return bytes(audio)
            elif event.type == until:
                return bytes(audio)
            else:
                assert event.type == "Metadata", event

    async def speak(self, pieces: list[str]) -> Spoken:
        await self.begin(pieces)
        return Spoken(await self.sound("Flushed"), RATE)

    async def interrupt(self, long: list[str], pieces: list[str]) -> Spoken:
        await self.begin(long)
        await self.sound()
        await self.connection.send_clear()
        await self.sound("Cleared")
        return await self.speak(pieces)

    async def abandon(self, long: list[str], sounding: Sounding) -> None:
        await self.begin(long)
        await self.sound()
        sounding()


perform(Client)
