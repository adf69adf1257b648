"""LiveKit's plugins, as an agent's session uses them: a stream for each turn."""

from typing import Any

import aiohttp
from livekit.agents import tokenize, tts
from stage import Sounding, Spoken, perform


def plugin(asked: dict[str, Any]) -> tts.TTS:
    http, grpc, voice = asked["http"], asked["grpc"], asked["voice"]
    match asked["kind"]:
        case "cartesia":
            from livekit.plugins import cartesia

            return cartesia.TTS(api_key="any", base_url=f"http://{http}", voice=voice, http_session=session())
        case "elevenlabs":
            from livekit.plugins import elevenlabs

            base = f"http://{http}/v1"
            return elevenlabs.TTS(api_key="any", base_url=base, voice_id=voice, http_session=session())
        case "deepgram":
            from livekit.plugins import deepgram

            base = f"http://{http}/v1/speak"
            return deepgram.TTS(api_key="any", base_url=base, model=voice, http_session=session())
        case "openai":
            from livekit.plugins import openai

            return openai.TTS(api_key="any", base_url=f"http://{http}/v1", voice=voice)
        case _:
            from livekit.plugins import nvidia

            return nvidia.TTS(server=grpc, use_ssl=False, voice=voice)


def session() -> aiohttp.ClientSession:
    return aiohttp.ClientSession()


class Client:
    def __init__(self, asked: dict[str, Any]) -> None:
        made = plugin(asked)
        # Where it is not told times, it makes some up by itself, sentence by sentence.
        self.words = made.capabilities.aligned_transcript
        # As an agent's session does with those that take whole texts.
        sentences = tokenize.basic.SentenceTokenizer()
        self.tts = made if made.capabilities.streaming else tts.StreamAdapter(tts=made, sentence_tokenizer=sentences)

    def begin(self, pieces: list[str]) -> tts.SynthesizeStream:
        stream = self.tts.stream()
        for piece in pieces:
            stream.push_text(piece)
        stream.end_input()
        return stream

    async def speak(self, pieces: list[str]) -> Spoken:
        audio, words = bytearray(), list[list[Any]]()
        async with self.begin(pieces) as stream:
            async for event in stream:
                audio += event.frame.data
                for word in event.frame.userdata.get("lk.timed_transcripts", []) if self.words else ():
                    words.append([str(word), word.start_time, word.end_time])
        return Spoken(bytes(audio), self.tts.sample_rate, words=words)

    async def interrupt(self, long: list[str], pieces: list[str]) -> Spoken:
        async with self.begin(long) as stream:
            async for _ in stream:
                break
        return await self.speak(pieces)

    async def abandon(self, long: list[str], sounding: Sounding) -> None:
        stream = self.begin(long)
        async for _ in stream:
            sounding()
            break
        self.left = stream


perform(Client)
