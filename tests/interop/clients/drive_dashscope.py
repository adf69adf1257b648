"""DashScope's own client: a task for each turn, with callbacks from its thread."""

import json
import threading
from typing import Any

import dashscope
from dashscope.audio.tts_v2 import AudioFormat, ResultCallback, SpeechSynthesizer
from stage import Sounding, Spoken, perform


class Ear(ResultCallback):
    def __init__(self) -> None:
        self.audio = bytearray()
        self.words: list[list[Any]] = []
        self.sounds = threading.Event()
        self.fault: str | None = None

    def on_data(self, data: bytes) -> None:
        self.audio += data
        self.sounds.set()

    def on_event(self, message: str) -> None:
        told = json.loads(message)
        for word in told["payload"].get("output", {}).get("sentence", {}).get("words", []):
            self.words.append([word["text"], word["begin_time"] / 1000, word["end_time"] / 1000])

    def on_error(self, message: str) -> None:
        self.fault = str(message)
        self.sounds.set()


class Client:
    def __init__(self, asked: dict[str, Any]) -> None:
        dashscope.api_key = "any"
        self.asked = asked

    def begin(self, pieces: list[str]) -> tuple[SpeechSynthesizer, Ear]:
        ear = Ear()
        synthesizer = SpeechSynthesizer(
            model="cosyvoice-v3-flash",
            voice=self.asked["voice"],
            format=AudioFormat.PCM_24000HZ_MONO_16BIT,
            callback=ear,
            url=f"ws://{self.asked['http']}/api-ws/v1/inference",
            additional_params={"word_timestamp_enabled": True},
        )
        for piece in pieces:
            synthesizer.streaming_call(piece)
        return synthesizer, ear

    def speak(self, pieces: list[str]) -> Spoken:
        synthesizer, ear = self.begin(pieces)
        synthesizer.streaming_complete()
        assert ear.fault is None, ear.fault
        return Spoken(bytes(ear.audio), 24000, words=ear.words)

    def interrupt(self, long: list[str], pieces: list[str]) -> Spoken:
        synthesizer, ear = self.begin(long)
        ear.sounds.wait()
        synthesizer.streaming_cancel()
        assert ear.fault is None, ear.fault
        return self.speak(pieces)

    def abandon(self, long: list[str], sounding: Sounding) -> None:
        self.left, ear = self.begin(long)
        ear.sounds.wait()
        assert ear.fault is None, ear.fault
        sounding()


perform(Client)
