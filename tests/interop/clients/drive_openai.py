"""OpenAI's own client, streaming."""

from typing import Any

import openai
from stage import Sounding, Spoken, perform

RATE = 24000


class Client:
    def __init__(self, asked: dict[str, Any]) -> None:
        self.client = openai.AsyncOpenAI(api_key="any", base_url=f"http://{asked['http']}/v1", max_retries=0)

    def begin(self, pieces: list[str]) -> Any:
        return self.client.audio.speech.with_streaming_response.create(
            model="gpt-4o-mini-tts", voice="alloy", input="".join(pieces), response_format="pcm"
        )

    async def speak(self, pieces: list[str]) -> Spoken:
        async with self.begin(pieces) as response:
            return Spoken(b"".join([part async for part in response.iter_bytes()]), RATE)

    async def interrupt(self, long: list[str], pieces: list[str]) -> Spoken:
        async with self.begin(long) as response:
            async for _ in response.iter_bytes():
                break
        return await self.speak(pieces)

    async def abandon(self, long: list[str], sounding: Sounding) -> None:
        self.left = await self.begin(long).__aenter__()
        self.parts = self.left.iter_bytes()
        await anext(self.parts)
        sounding()


perform(Client)
