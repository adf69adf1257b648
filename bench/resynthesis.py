"""What survives the speech tokens? python -m bench.resynthesis CORPUS [--lang en] [--limit 40] [--json]

Held-out recordings (training.data keeps one clip in 64 from training) go to speech tokens by the model's ONNX
tokenizer, back to mel by the flow with the prompt of their voice, and to sound by the vocoder. No language model takes
part: the difference to the recordings is what tokens, flow and vocoder lose.

Keys of the printed object:

* `lang`; `clips`: how many were taken;
* `wer` (`cer` for zh): error rate of the resynthesised speech, edits over words or characters, as a share;
  `recorded_wer` (`recorded_cer`): that of the recordings themselves;
* `mos`, `recorded_mos`: the same of the opinion score, 1 to 5, on average;
* `lines`, with --json, one for each clip: `id`, `text`, `heard`, `units`, `edits`, `recorded_edits`, `mos`,
  `recorded_mos`.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bench.asr import MissingPackage, OpinionScore, Recogniser
from oscine_engine.checkpoint import layout
from oscine_engine.checkpoint.load import Checkpoint, load
from oscine_engine.errors import OscineError
from oscine_engine.features import resample
from oscine_engine.flow.oneshot import solve
from oscine_engine.voices.encoders import RATE as ENCODER_RATE
from oscine_engine.voices.encoders import Encoders
from oscine_engine.voices.prompt import VoicePrompt
from oscine_service.listening.scoring import METRIC, edits, units
from training.data import is_valid
from training.prompts import RATE, SOURCES, read_clips


@torch.inference_mode()
def resynthesise(model: Checkpoint, voice: VoicePrompt, tokens: Tensor) -> Tensor:
    """Samples [n * 960] of speech ids [n], in one shot with the chunk mask of streaming."""
    mel = solve(
        model.flow,
        voice.flow_speech_tokens[None].long(),
        tokens[None].long(),
        voice.mel[None],
        voice.embedding[None],
        model.noise.rand_noise,
        streaming=True,
    ).mel
    wave, _ = model.vocoder(mel, model.noise.sine_waves(mel.shape[2] * model.config.vocoder.samples_per_frame))
    return wave[0]


def measure(corpus: Path, directory: Path | None, lang: str, limit: int, least_s: float) -> dict[str, Any]:
    """Figures over the first `limit` held-out clips of at least `least_s` seconds."""
    kind = "zh" if lang == "zh" else "en"
    lines = [json.loads(line) for line in (corpus / "manifest.jsonl").read_text(encoding="utf-8").splitlines()]
    held = [m for m in lines if m["lang"] == kind and m["seconds"] >= least_s and is_valid(m["id"])][:limit]
    model = load(directory)
    encoders, recogniser, opinion = Encoders(*layout.find(directory).encoders()), Recogniser(kind), OpinionScore()
    waves = read_clips(corpus, {m["id"]: m for m in held})
    voices = {source.voice: model.voices[source.name] for source in SOURCES if source.name in model.voices}
    rows = []
    for m in held:
        recorded = waves[m["id"]]
        made = resynthesise(model, voices[m["voice"]], encoders.tokens(resample(recorded, RATE, ENCODER_RATE)))
        heard, heard_recorded = (recogniser.transcribe(w.numpy(), RATE) for w in (made, recorded))
        wanted = units(kind, m["text"])
        rows.append(
            {
                "id": m["id"],
                "text": m["text"],
                "heard": heard,
                "units": len(wanted),
                "edits": edits(units(kind, heard), wanted),
                "recorded_edits": edits(units(kind, heard_recorded), wanted),
                "mos": opinion(made.numpy(), RATE),
                "recorded_mos": opinion(recorded.numpy(), RATE),
            }
        )
    total = sum(row["units"] for row in rows)
    return {
        "lang": kind,
        "clips": len(rows),
        METRIC[kind]: sum(row["edits"] for row in rows) / total,
        f"recorded_{METRIC[kind]}": sum(row["recorded_edits"] for row in rows) / total,
        "mos": float(np.mean([row["mos"] for row in rows])),
        "recorded_mos": float(np.mean([row["recorded_mos"] for row in rows])),
        "lines": rows,
    }


def main() -> None:
    """Command line entry point."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", type=Path, help="folder with manifest.jsonl and its shards")
    parser.add_argument("--lang", choices=("en", "zh"), default="en", help="default %(default)s")
    parser.add_argument("--model", type=Path, help="model directory; default: the embedded voice")
    parser.add_argument("--limit", type=int, default=40, help="clips at most (default %(default)s)")
    parser.add_argument(
        "--least-s", type=float, default=2.0, help="shortest clip to take, seconds (default %(default)s)"
    )
    parser.add_argument("--json", action="store_true", help="print one object, on one line")
    a = parser.parse_args()
    torch.set_num_threads(1)
    try:
        result = measure(a.corpus, a.model, a.lang, a.limit, a.least_s)
    except (OSError, MissingPackage, OscineError) as error:
        raise SystemExit(f"bench.resynthesis: {error}") from error
    if a.json:
        print(json.dumps(result, ensure_ascii=False))
        return
    for row in result.pop("lines"):
        print(f"{row['edits']}/{row['units']} (recorded {row['recorded_edits']}) {row['text']} | {row['heard']}")
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
