"""NVIDIA's own client of Riva."""

from typing import Any

import riva.client
from riva.client.proto.riva_audio_pb2 import AudioEncoding
from stage import Sounding, Spoken, perform

RATE = 22050


class Client:
    def __init__(self, asked: dict[str, Any]) -> None:
        self.voice = asked["voice"]
        self.service = riva.client.SpeechSynthesisService(riva.client.Auth(None, False, asked["grpc"]))

    def begin(self, pieces: list[str]) -> Any:
        return self.service.synthesize_online(
            ["".join(pieces)],  # it takes sentences, not words
            self.voice,
            "en-US",
            encoding=AudioEncoding.LINEAR_PCM,
            sample_rate_hz=RATE,
            enable_word_time_offsets=True,
        )

    def speak(self, pieces: list[str]) -> Spoken:
        audio, words = bytearray(), list[list[Any]]()
        for response in self.begin(pieces):
            audio += response.audio
            words += [[word.word, word.start_time / 1000, word.end_time / 1000] for word in response.meta.words]
        return Spoken(bytes(audio), RATE, words=words)

    def interrupt(self, long: list[str], pieces: list[str]) -> Spoken:
        call = self.begin(long)
        next(call)
        call.cancel()
        return self.speak(pieces)

    def abandon(self, long: list[str], sounding: Sounding) -> None:
        self.left = self.begin(long)
        next(self.left)
        sounding()


perform(Client)
