"""What the official client gets from `/v1/audio/speech`, in every format, is understood by a machine that listens."""

import io
import math

import numpy as np
import openai
import pytest
import soundfile

from bench.asr import Recogniser
from oscine_codecs import pcm
from oscine_engine.engine import Engine, EngineSettings
from oscine_service.conversation import Calls
from oscine_service.http import openai as door
from oscine_service.http.app import application
from oscine_service.http.openai_request import FORMATS
from oscine_service.http.server import serving
from oscine_service.limits import Limits
from tests.codecs.decoders import by_ffmpeg
from tests.codecs.signals import Samples

pytestmark = pytest.mark.slow

TEXT = "The train to the city leaves at seven in the morning."
WORDS = {"train", "city", "leaves", "seven", "morning"}


def heard(format: str, data: bytes) -> tuple[Samples, int]:
    match format:
        case "pcm":
            return pcm.decode(data), 24000
        case "aac" | "flac":
            return by_ffmpeg(data, format), 24000
        case _:
            with soundfile.SoundFile(io.BytesIO(data)) as file:
                return np.asarray(file.read(1 << 22, dtype="float32")), file.samplerate


async def test_every_format_is_understood() -> None:
    recogniser, limits, calls = Recogniser("en"), Limits(), Calls()
    async with Engine.load(EngineSettings(utilisation=math.inf)) as engine:
        app = application(engine, limits, calls, routes=door.routes(engine, limits, calls, {}))
        async with (
            serving(app, "127.0.0.1", 0, limits=limits, grace_s=0, calls=calls) as address,
            openai.AsyncOpenAI(
                base_url=f"http://{address}/v1",
                api_key="any",
                http_client=openai.DefaultAsyncHttpx2Client(trust_env=False),
            ) as client,
        ):
            for format in FORMATS:
                response = await client.audio.speech.create(
                    model="tts-1", voice="alloy", input=TEXT, response_format=format, extra_body={"seed": 3}
                )
                said = recogniser.transcribe(*heard(format, response.content))
                assert len(WORDS & set(said.lower().replace(".", "").split())) >= 4, (format, said)
