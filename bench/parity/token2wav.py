"""Parity of flow and vocoder together: upstream's streams with their seam, whole utterances, and our own stream.

Upstream hands the vocoder a growing mel and keeps what is new of each answer; the mel of its last call is solved
without the chunk mask. What each call was given follows from the recorded sample counts.

The flow runs in float64 here. Rounding moves a mel by 2e-6, differently on every machine, and that alone moves the
wave by up to 2.6e-2: F0 errors are summed up into the phase and multiplied by 480. In float64 only upstream's own
rounding is left. The flow's own rows check float32.
"""

from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from bench.parity.flow import INPUTS, Case, load_cases, load_flow
from bench.parity.hift import load_hift
from bench.parity.rows import Row, compare, equal, missing, tensors
from bench.parity.utterances import one_stream
from oscine_engine.checkpoint.noise import default_noise
from oscine_engine.config import ModelConfig
from oscine_engine.flow.network import Flow
from oscine_engine.flow.oneshot import solve
from oscine_engine.runtime.tempo import Tempo
from oscine_engine.vocoder.f0 import LOOK_RIGHT
from oscine_engine.vocoder.network import HiFT
from oscine_engine.vocoder.runner import VocoderRunner

WAVE = 2e-2


@torch.no_grad()
def checks(folder: Path, config: dict[str, Any]) -> Iterator[Row]:
    """All rows of config["files"]["token2wav"]."""
    flow, vocoder = load_flow(folder, config).double(), load_hift(folder, config)
    recorded = tensors(folder, config["files"]["token2wav"])
    settings = config["cases"]["token2wav"]
    case = next((case for case in load_cases(folder, config, flow) if case.prefix == settings["flow_prefix"]), None)
    absent = INPUTS if case is None else [name for name in INPUTS if name not in case.recorded]
    if case is None or absent:
        yield from (missing(f"token2wav {settings['flow_prefix']}{name}", "input") for name in absent)
        return
    token = case["in.token"]
    hop = vocoder.config.samples_per_frame
    samples = token.shape[1] * flow.config.token_mel_ratio * hop
    noise, row = _sine_waves(folder, config, samples)
    yield row

    whole = solve(flow, *case.utterance().double(), streaming=False).mel.float()
    streamed = solve(flow, *case.utterance().double(), streaming=True).mel.float()
    speed = settings["speed"]
    faster = Tempo(speed).push(whole[0].T, last=True).T[None]
    waves = {
        "upstream_nonstream": whole,
        f"upstream_nonstream_speed{speed}": faster,
        "fixed_stream_oneshot_wav": streamed,
    }
    for name, mel in waves.items():
        if name in recorded:
            yield compare(f"token2wav {name}", vocoder(mel, noise)[0], recorded[name], WAVE)
        else:
            yield missing(f"token2wav {name}", f"tensor {name}")
    yield from _upstream_stream(case, flow, vocoder, noise, recorded)
    if "fixed_stream_oneshot_wav" in recorded:
        mine = _incremental(case, flow, vocoder, noise)
        title = "token2wav incremental flow and vocoder"
        yield compare(title, mine, recorded["fixed_stream_oneshot_wav"], WAVE)
    for name in sorted(name for name in recorded if name not in waves and not name.startswith(_CHUNK)):
        yield missing(f"token2wav {name}", "check for this recorded tensor")


_CHUNK = "upstream_stream.chunk"


def _sine_waves(folder: Path, config: dict[str, Any], samples: int) -> tuple[Tensor, Row]:
    """Excitation noise for `samples` samples, and the row that says it continues the vocoder's recorded one.

    A tiny vocoder carries the noise of the full-size model, unless it was built in one piece with its own flow.
    """
    name = "noise.sine_waves"
    title = f"token2wav {name}, re-drawn"
    recorded = tensors(folder, config["files"]["hift"][1]).get(name)
    drawn = default_noise(ModelConfig()).sine_waves(samples)
    if recorded is None:
        return drawn, missing(title, f"tensor {name}")
    row = compare(title, drawn[:, : recorded.shape[1]], recorded[:, :samples], 0.0)
    if not row.ok:
        own = default_noise(ModelConfig.from_reference(config)).sine_waves(samples)
        second = compare(title, own[:, : recorded.shape[1]], recorded[:, :samples], 0.0)
        if second.ok:
            return own, second
    return drawn, row


def _upstream_stream(
    case: Case, flow: Flow, vocoder: HiFT, noise: Tensor, recorded: dict[str, Tensor]
) -> Iterator[Row]:
    """Upstream's chunks as emitted: all but the last from growing calls, the last with an unmasked tail."""
    names = sorted((name for name in recorded if name.startswith(_CHUNK)), key=lambda name: int(name[len(_CHUNK) :]))
    if not names:
        yield missing(f"token2wav {_CHUNK}0", "any chunk of a stream")
        return
    yield equal("token2wav upstream_stream chunk numbers", names, [f"{_CHUNK}{number}" for number in range(len(names))])
    hop, ratio, token = vocoder.config.samples_per_frame, flow.config.token_mel_ratio, case["in.token"]
    held = LOOK_RIGHT + vocoder.config.conv_pre_look_right + 1
    ends = list(accumulate(recorded[name].shape[1] for name in names))
    yield equal("token2wav upstream_stream samples", ends[-1], token.shape[1] * ratio * hop)
    mel, emitted = torch.zeros(1, flow.config.output_size, 0), 0
    for name, end in zip(names, ends, strict=True):
        final = name == names[-1]
        given = token.shape[1] if final else (end // hop + held) // ratio + flow.config.pre_lookahead_len
        said = case.utterance(given).double()
        new = solve(flow, *said, streaming=not final, finalize=final).mel.float()
        mel = torch.cat((mel, new[:, :, mel.shape[2] :]), dim=2)
        wave, _ = vocoder(mel, noise, final)
        yield compare(f"token2wav {name}", wave[:, emitted:], recorded[name], WAVE)
        emitted = end


def _incremental(case: Case, flow: Flow, vocoder: HiFT, noise: Tensor) -> Tensor:
    """Our stream: each chunk's mel straight into the stateful vocoder; [1, samples]."""
    runner = VocoderRunner(vocoder, noise)
    stream, waves = runner.open(), []
    mels = one_stream(flow, case.utterance().double())
    for number, mel in enumerate(mels):
        (wave,) = runner.step([(stream, mel.float(), number == len(mels) - 1)])
        waves.append(torch.from_numpy(wave))
    return torch.cat(waves)[None]
