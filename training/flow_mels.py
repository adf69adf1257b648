"""Mels of the whole corpus as the flow makes them, to tune the vocoder on what it will hear.

    python -m training.flow_mels WORK OUT.npy

Each clip follows a prompt of its voice, as in use. The solver starts from the true mel noised to its fourth step: pitch
and loudness then stay those of the recording, which the vocoder is compared with, while the detail is the flow's own.
OUT is float16 [2 a token, 80], in the rows of WORK/data/mel.npy.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file

from oscine_engine.flow.network import Flow
from training import sizes
from training.data import MEL, index_rows, save_array
from training.flow import Data, example, solve
from training.graphed import autocast, pick_device

PROMPT_TOKENS = (40, 100)
FIRST_STEP = 4
ROWS = 64


def generate(work: Path, seed: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float16]]:
    """The mels, by the exported weights."""
    device = pick_device()
    data = Data(work, device)
    corpus = data.corpus
    flow = Flow(sizes.FLOW).to(device).eval()
    flow.load_state_dict({k: v.float() for k, v in load_file(work / "export" / "flow.safetensors").items()})
    rng = np.random.default_rng(seed)
    torch.manual_seed(seed)
    out = np.zeros((MEL * int(corpus.starts[-1]), 80), np.float16)
    pools = {
        v: corpus.train[(corpus.voice[corpus.train] == v) & (corpus.lengths[corpus.train] >= PROMPT_TOKENS[0])]
        for v in np.unique(corpus.voice)
    }
    order = np.argsort(corpus.lengths, kind="stable")
    for rows in np.array_split(order, max(1, len(order) // ROWS)):
        prompt = np.array([rng.choice(pools[corpus.voice[c]]) if len(pools[corpus.voice[c]]) else c for c in rows])
        held = np.minimum(corpus.lengths[prompt], PROMPT_TOKENS[1])
        starts = np.stack([corpus.starts[prompt], corpus.starts[rows]], 1)
        lengths = np.stack([held, corpus.lengths[rows]], 1)
        width = int(lengths.sum(1).max())
        batch = {
            "tokens": torch.from_numpy(index_rows(starts, lengths, width)).to(device),
            "speaker": torch.from_numpy(data.clip_count + corpus.voice[rows]).to(device),
        }
        with torch.no_grad(), autocast(device):
            mel, mask, ids, frames = example(data, batch)
            mu = flow.encode(ids, frames // MEL).float() * mask
            speaker = flow.speaker(data.speakers[batch["speaker"]]).float()
            given = torch.arange(mel.shape[2], device=device) < torch.from_numpy(MEL * held).to(device)[:, None]
            made = solve(flow, mel, mask, mu, speaker, mel * given[:, None], FIRST_STEP)
        for row, clip, skip in zip(made.transpose(1, 2).cpu().numpy(), rows, MEL * held, strict=True):
            first, count = MEL * int(corpus.starts[clip]), MEL * int(corpus.lengths[clip])
            out[first : first + count] = row[skip : skip + count]
    return out


def main() -> None:
    """Command line entry point."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    a = parser.parse_args()
    began = time.monotonic()
    made = generate(a.work, a.seed)
    true = np.load(a.work / "data" / "mel.npy", mmap_mode="r")
    print(
        f"{len(made)} frames in {time.monotonic() - began:.0f} s, L1 to the true mel {np.abs(made - true).mean():.3f}"
    )
    save_array(a.out, made)


if __name__ == "__main__":
    main()
