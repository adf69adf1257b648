"""The voices file of a model directory, spk2info.pt: name -> prompts and embeddings.

Each entry has the released keys: prompt_text, llm_prompt_speech_token and flow_prompt_speech_token (int32 [1, n]),
prompt_speech_feat [1, 2n, 80], flow_embedding [1, 192]. Released files hold prompt_text as ids, ours as a string;
ours add language, description and transcript.
"""

import io
import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from oscine_engine.errors import CheckpointError, InvalidInput
from oscine_engine.text.marks import END_OF_PROMPT
from oscine_engine.voices.language import Language
from oscine_engine.voices.prompt import VoicePrompt

_NEEDED = ("flow_prompt_speech_token", "prompt_speech_feat", "flow_embedding")
_LM_SPEECH = "llm_prompt_speech_token"
_log = logging.getLogger(__name__)


def read_voices(path: Path, decode: Callable[[list[int]], str]) -> dict[str, VoicePrompt]:
    """Every usable voice of the file; `decode` turns text ids into text.

    Entries without a flow prompt (speaker embeddings alone, as older models had) are skipped with a warning. Raises
    CheckpointError for a file that is not plain data or an entry whose types or shapes do not fit, and OSError for one
    that cannot be read.
    """
    data = path.read_bytes()
    try:
        table = torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)
    except Exception as error:  # there is hardly one that a damaged pickle does not raise
        # Not in torch's words, which explain how to run what a file holds.
        raise CheckpointError(
            f"{path} is damaged or holds more than plain data, which is not loaded; save it anew, of tensors, texts "
            "and numbers only"
        ) from error
    if not isinstance(table, Mapping) or not all(isinstance(entry, Mapping) for entry in table.values()):
        raise CheckpointError(f"{path} must map voice names to their prompts")
    voices = {}
    for name, entry in table.items():
        if any(key not in entry for key in _NEEDED):
            _log.warning("voice %s of %s has no flow prompt (%s) and is skipped", name, path, ", ".join(_NEEDED))
            continue
        try:
            voices[str(name)] = _voice(str(name), entry, decode)
        except InvalidInput as error:
            raise CheckpointError(f"{path}: {error}") from error
    return voices


def _voice(name: str, entry: Mapping[str, Any], decode: Callable[[list[int]], str]) -> VoicePrompt:
    spoken = entry.get("prompt_text", "")
    text = decode(_ids(name, entry, "prompt_text").tolist()) if isinstance(spoken, Tensor) else str(spoken)
    prefix, mark, tail = text.partition(END_OF_PROMPT)
    transcript = str(entry.get("transcript", tail))
    tokens = _ids(name, entry, "flow_prompt_speech_token")
    mel = _tensor(name, entry, "prompt_speech_feat").float()
    if mel.dim() < 2:
        raise InvalidInput(f"voice {name!r}: prompt_speech_feat must be [1, frames, 80]")
    mel = mel.flatten(0, -2)
    count = min(tokens.numel(), mel.shape[0] // 2)
    return VoicePrompt(
        name=name,
        language=_language(entry.get("language"), text + transcript),
        description=str(entry.get("description", "")),
        prompt_text=prefix + mark,
        transcript=transcript,
        lm_speech_tokens=_ids(name, {_LM_SPEECH: torch.zeros(0, dtype=torch.int32), **entry}, _LM_SPEECH),
        flow_speech_tokens=tokens[:count],
        mel=mel[: 2 * count],
        embedding=_tensor(name, entry, "flow_embedding").float().flatten(),
    )


def _tensor(name: str, entry: Mapping[str, Any], key: str) -> Tensor:
    value = entry[key]
    if not isinstance(value, Tensor):
        raise InvalidInput(f"voice {name!r}: {key} must be a tensor, not {type(value).__name__}")
    return value


def _ids(name: str, entry: Mapping[str, Any], key: str) -> Tensor:
    """int32 [n]. Raises InvalidInput for what are no ids."""
    value = _tensor(name, entry, key).flatten()
    if value.is_floating_point() or value.is_complex() or (value.numel() and int(value.min()) < 0):
        raise InvalidInput(f"voice {name!r}: {key} must hold whole numbers from 0 up")
    return value.to(torch.int32)


def _language(given: object, text: str) -> Language:
    if given in ("en", "zh"):
        return "zh" if given == "zh" else "en"
    return "zh" if any("\u4e00" <= char <= "\u9fff" for char in text) else "en"


def write_voices(voices: Mapping[str, VoicePrompt], path: Path) -> None:
    """Write voices so that read_voices gives them back. Raises OSError."""
    # Opened here: for a path of its own torch raises something else.
    with path.open("wb") as file:
        torch.save({name: _entry(voice) for name, voice in voices.items()}, file)


def _entry(voice: VoicePrompt) -> dict[str, Any]:
    tensors = {
        "llm_prompt_speech_token": voice.lm_speech_tokens[None],
        "flow_prompt_speech_token": voice.flow_speech_tokens[None],
        "prompt_speech_feat": voice.mel[None],
        "llm_embedding": voice.embedding[None],
        "flow_embedding": voice.embedding[None],
    }
    return {
        **{key: value.detach().to("cpu").clone() for key, value in tensors.items()},
        "prompt_text": voice.prompt_text,
        "transcript": voice.transcript,
        "language": voice.language,
        "description": voice.description,
    }
