"""From a recording and its words to a voice."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from oscine_engine.config import FrontEnd
from oscine_engine.errors import InvalidInput
from oscine_engine.features import mel24k, resample
from oscine_engine.voices import forms, transcript
from oscine_engine.voices.encoders import RATE as ENCODER_RATE
from oscine_engine.voices.encoders import Encoders
from oscine_engine.voices.language import Language
from oscine_engine.voices.prompt import VoicePrompt
from oscine_engine.voices.recording import inspect

MEL_RATE = 24000


@dataclass(frozen=True, slots=True)
class Reference:
    """Who speaks in a recording, and what. transcript: its words, "" if they are not known: then the voice is copied
    from its sound alone, which is a little less like it."""

    name: str
    transcript: str = ""
    language: Language | None = None
    description: str = ""


@torch.inference_mode()
def register(
    samples: NDArray[np.float32], rate: int, reference: Reference, encoders: Encoders, front_end: FrontEnd
) -> VoicePrompt:
    """The voice of mono samples in [-1, 1]. Takes some tenths of a second; no network of the model itself runs.

    Tokens and embedding are of the recording at 16 kHz, the mel of it at 24 kHz, each resampled from the original, and
    tokens and mel are cut to the same length. Raises InvalidInput for what makes no voice, saying why.
    """
    words = " ".join(reference.transcript.split())
    transcript.check_letters(words, front_end)
    recording = inspect(samples, rate)
    if words:
        transcript.check(words, recording.speech_s)
    audio = torch.from_numpy(recording.samples)
    heard, drawn = resample(audio, rate, ENCODER_RATE), resample(audio, rate, MEL_RATE)
    tokens, mel = encoders.tokens(heard), mel24k(drawn).T.contiguous()
    count = min(len(tokens), len(mel) // 2)
    if not count:
        raise InvalidInput("nothing was recognised in the recording; send clear speech")
    return VoicePrompt(
        name=reference.name,
        language=reference.language or _language(words),
        description=reference.description,
        prompt_text=forms.plain(front_end),
        transcript=words,
        # Without the words the speech would be read as if it were of the new text.
        lm_speech_tokens=tokens[:count].clone() if words else torch.zeros(0, dtype=torch.int32),
        flow_speech_tokens=tokens[:count].clone(),
        mel=mel[: 2 * count].clone(),
        embedding=encoders.embedding(heard),
    )


def _language(words: str) -> Language:
    return "zh" if any("\u4e00" <= char <= "\u9fff" for char in words) else "en"
