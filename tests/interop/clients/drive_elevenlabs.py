"""ElevenLabs' own client, which gives its iterator of text to a WebSocket of one context, over TLS always."""

from collections.abc import Iterator
from typing import Any

from elevenlabs.client import ElevenLabs
from stage import Sounding, Spoken, perform


class Client:
    def __init__(self, asked: dict[str, Any]) -> None:
        self.voice = asked["voice"]
        self.client = ElevenLabs(api_key="any", base_url=f"https://{asked['http']}")

    def begin(self, pieces: list[str]) -> Iterator[bytes]:
        return self.client.text_to_speech.convert_realtime(self.voice, text=iter(pieces), model_id="eleven_flash_v2_5")

    def speak(self, pieces: list[str]) -> Spoken:
        return Spoken(b"".join(self.begin(pieces)), 44100, "mp3")

    def interrupt(self, long: list[str], pieces: list[str]) -> Spoken:
        sounds = self.begin(long)
        next(sounds)
        sounds.close()
        return self.speak(pieces)

    def abandon(self, long: list[str], sounding: Sounding) -> None:
        self.left = self.begin(long)
        next(self.left)
        sounding()


perform(Client)
