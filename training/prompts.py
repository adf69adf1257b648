"""The shipped voices: which clip of the corpus each is prompted with, and the prompts made of them."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import soundfile
import torch
from torch import Tensor

from oscine_engine.features import mel24k, resample
from oscine_engine.text.marks import END_OF_PROMPT, VOICE_TAGS
from oscine_engine.voices.encoders import RATE as ENCODER_RATE
from oscine_engine.voices.encoders import Encoders
from oscine_engine.voices.prompt import Language, VoicePrompt, aligned
from training.data import VOICES

RATE, SAMPLES_PER_TOKEN = 24000, 960
CHUNK, HEAD_START = 25, 10
"""A prompt of CHUNK - HEAD_START tokens beyond whole chunks: the first chunk then ends after HEAD_START new ones."""
EMBEDDING_CLIPS = 24


@dataclass(frozen=True, slots=True)
class Source:
    """A voice as it ships, and the corpus clip that prompts it."""

    name: str
    voice: str
    language: Language
    description: str
    clip: str


# Of some clips a voice with 1 or 2 tokens to cut away (which hold silence only): no word misheard, best opinion score.
SOURCES = (
    Source("heart", "af_heart", "en", "American English, woman", "en-d0910"),
    Source("michael", "am_michael", "en", "American English, man", "en-d1667"),
    Source("emma", "bf_emma", "en", "British English, woman", "en-w00860"),
    Source("xiaoxiao", "zf_xiaoxiao", "zh", "Mandarin, woman", "zh-d0586"),
    Source("yunxi", "zm_yunxi", "zh", "Mandarin, man", "zh-d0162"),
)


def read_clips(corpus: Path, wanted: Mapping[str, Mapping[str, Any]]) -> dict[str, Tensor]:
    """24 kHz waves of the clips `wanted` (id -> its line of the manifest), cut to whole tokens."""
    found: dict[str, Tensor] = {}
    for shard in sorted({str(line["shard"]) for line in wanted.values()}):
        with tarfile.open(corpus / shard) as tar:
            for member in tar:
                name = Path(member.name).stem
                packed = tar.extractfile(member) if name in wanted else None
                if packed is not None:
                    wave, rate = soundfile.read(io.BytesIO(packed.read()), dtype="float32")
                    if rate != RATE:
                        raise ValueError(f"{name} is {rate} Hz, expected {RATE}")
                    found[name] = torch.from_numpy(wave[: len(wave) // SAMPLES_PER_TOKEN * SAMPLES_PER_TOKEN])
    missing = wanted.keys() - found.keys()
    if missing:
        raise FileNotFoundError(f"clips that are in no shard of {corpus}: {', '.join(sorted(missing))}")
    return found


def prompt(source: Source, transcript: str, wave: Tensor, embedding: Tensor, encoders: Encoders) -> VoicePrompt:
    """The voice prompted with `wave`, shortened at its start so that the first chunk comes early (see HEAD_START)."""
    tokens, mel = encoders.tokens(resample(wave, RATE, ENCODER_RATE)), mel24k(wave).T
    count = min(len(tokens), len(mel) // 2)
    whole = VoicePrompt(
        name=source.name,
        language=source.language,
        description=source.description,
        prompt_text=VOICE_TAGS[VOICES.index(source.voice)] + END_OF_PROMPT,
        transcript=transcript,
        lm_speech_tokens=torch.zeros(0, dtype=torch.int32),
        flow_speech_tokens=tokens[:count],
        mel=mel[: 2 * count],
        embedding=embedding,
    )
    cut = aligned(whole, CHUNK, HEAD_START)
    return replace(cut, flow_speech_tokens=cut.flow_speech_tokens.clone(), mel=cut.mel.contiguous())


def make(corpus: Path, encoders: Encoders) -> dict[str, VoicePrompt]:
    """All shipped voices. The embedding is the mean over several clips of the voice."""
    lines = (corpus / "manifest.jsonl").read_text(encoding="utf-8").splitlines()
    manifest = {line["id"]: line for line in map(json.loads, lines)}
    voices = {}
    for source in SOURCES:
        others = [i for i, m in manifest.items() if m["voice"] == source.voice and m["seconds"] > 2][:EMBEDDING_CLIPS]
        waves = read_clips(corpus, {i: manifest[i] for i in [*others, source.clip]})
        embedding = torch.stack([encoders.embedding(resample(waves[i], RATE, ENCODER_RATE)) for i in others]).mean(0)
        text = str(manifest[source.clip]["text"])
        voices[source.name] = prompt(source, text, waves[source.clip], embedding, encoders)
    return voices
