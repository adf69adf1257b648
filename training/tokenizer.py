"""Train the speech tokenizer and the speaker encoder, then write every clip's ids and embedding.

    python -m training.tokenizer WORK --seconds 270

Losses: CTC on the phones from the quantised codes; L1 and L2 of the mel, rebuilt from codes and a speaker embedding
that was taken from another clip of the voice, so that codes need not say who speaks; cross entropy of the voice.
Needs WORK/data (training.data). Writes WORK/tokens.npy int16 (one id a token of the grid), WORK/speakers.npy float32
[clips, 192], and into WORK/export `speech_tokenizer.safetensors` and `speaker.safetensors` (fp16; ids and embeddings
are those of exactly these rounded weights).
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from torch import Tensor, nn

from oscine_engine.text.marks import added_tokens
from training.ctc import ctc_loss, edits, greedy
from training.data import (
    FBANK,
    MEL,
    VOICES,
    WHISPER,
    Batch,
    Corpus,
    Ints,
    bucketed,
    expand,
    index_rows,
    on_device,
    save_array,
    upload,
)
from training.graphed import Graphed, Update, autocast, pick_device
from training.loop import Stage, save_weights, train
from training.networks import CODES, MelDecoder, PhoneHead, SpeakerEncoder, SpeechTokenizer, code_ids, real_frames

WIDTHS = (32, 48, 64, 80, 112, 160, 256, 384)
SPEAKER_TOKENS = 50
LETTERS_FROM = len(added_tokens()) + len(VOICES) + 7
CTC_WEIGHT, L1_WEIGHT, L2_WEIGHT, VOICE_WEIGHT, CORRELATION_WEIGHT = 1.0, 1.5, 0.5, 0.1, 1.0


def phones(text_ids: list[int]) -> list[int]:
    """The ids that sound: pronunciation marks, and letters that the front end spelled."""
    marks = added_tokens()
    return [i for i in text_ids if (i < len(marks) and marks[i].startswith("[")) or i >= LETTERS_FROM]


def augment(mel: Tensor) -> Tensor:
    """A band of bins and two short stretches of each row blanked out, and a little noise (SpecAugment,
    arXiv:1904.08779). `mel` [B, 128, F]."""
    rows, bins, frames = mel.shape

    def band(size: int, widest: int) -> Tensor:
        start, width = torch.rand(2, rows, 1, device=mel.device)
        place = torch.arange(size, device=mel.device)
        return (place >= start * size) & (place < start * size + width * widest)

    gone = band(bins, 24)[:, :, None] | (band(frames, 10) | band(frames, 10))[:, None]
    noise = torch.randn_like(mel) * torch.rand(rows, 1, 1, device=mel.device) * 0.1
    return (mel + noise).masked_fill(gone, 0.0)


class Model(nn.Module):
    """All networks of the stage and the losses of one batch."""

    def __init__(self, corpus: Corpus, vocabulary: int) -> None:
        super().__init__()
        self.tokenizer = SpeechTokenizer()
        self.speaker = SpeakerEncoder()
        self.phone_head = PhoneHead(vocabulary)
        self.decoder = MelDecoder()
        self.voice_head = nn.Linear(192, len(VOICES))
        sample = corpus.arrays["mel"][:: max(1, len(corpus.arrays["mel"]) // 200000)]
        self.register_buffer("mel_mean", sample.mean(0))
        self.register_buffer("mel_std", sample.std(0).clamp(min=0.1))
        self.mel_mean: Tensor
        self.mel_std: Tensor

    def forward(self, corpus: Corpus, table: Tensor, labels: Tensor, batch: dict[str, Tensor]) -> dict[str, Tensor]:
        """`batch`: tokens [B, W], voice_tokens [B, S] positions; clip, voice [B]. `table` [N, L], `labels` [N]: phones.

        Returns the losses, and `values` [B, W, 7] and `log_probs` [B, W, vocabulary]."""
        tokens, clip = batch["tokens"], batch["clip"].long()
        real = tokens >= 0
        frames = real.sum(1)
        whisper = corpus.arrays["whisper"][expand(tokens, WHISPER)].float().transpose(1, 2)
        if self.training:
            whisper = augment(whisper)
        fbank = corpus.arrays["fbank"][expand(batch["voice_tokens"], FBANK)].float()
        values, correlation = self.tokenizer.quantise(whisper, frames)
        embedding = self.speaker(fbank)
        log_probs = self.phone_head(values * real[..., None])
        targets = table[clip, : min(table.shape[1], tokens.shape[1])].long()
        nll = ctc_loss(log_probs, targets, frames, labels[clip].clamp(max=targets.shape[1]))
        ctc = nll.sum() / labels[clip].sum()
        mel = (corpus.arrays["mel"][expand(tokens, MEL)] - self.mel_mean) / self.mel_std
        heard = real_frames(2 * frames, mel.shape[1])[..., None]
        error = (self.decoder(values, embedding, frames) - mel) * heard
        count = heard.sum() * 80
        l1, l2 = error.abs().sum() / count, error.square().sum() / count
        voice = F.cross_entropy(self.voice_head(embedding).float(), batch["voice"].long())
        loss = CTC_WEIGHT * ctc + L1_WEIGHT * l1 + L2_WEIGHT * l2 + VOICE_WEIGHT * voice
        return {
            "loss": loss + CORRELATION_WEIGHT * correlation,
            "ctc": ctc,
            "l1": l1,
            "l2": l2,
            "voice": voice,
            "correlation": correlation,
            "values": values,
            "log_probs": log_probs,
        }


def epoch(corpus: Corpus, clips: Ints, rng: np.random.Generator, budget: int, all_rows: bool = False) -> list[Batch]:
    """`clips` once, in batches of about `budget` tokens."""
    made = []
    for width, rows in bucketed(rng, corpus.lengths[clips], WIDTHS, budget, all_rows):
        chosen = clips[rows]
        other = corpus.same_voice(rng, chosen)
        at = rng.integers(1 << 30, size=len(other)) % corpus.lengths[other]
        turned = (at[:, None] + np.arange(SPEAKER_TOKENS)) % corpus.lengths[other][:, None]
        made.append(
            Batch(
                {
                    "tokens": index_rows(corpus.starts[chosen, None], corpus.lengths[chosen, None], width),
                    "voice_tokens": (corpus.starts[other, None] + turned).astype(np.int32),
                    "clip": chosen.astype(np.int32),
                    "voice": corpus.voice[chosen].astype(np.int32),
                }
            )
        )
    return made


def phone_table(corpus: Corpus, device: torch.device) -> tuple[Tensor, Tensor]:
    """Phones of every clip as a padded table [N, L] and their counts [N]."""
    rows = [phones(corpus.text_of(i)) for i in range(len(corpus.clips))]
    table = np.zeros((len(rows), max(map(len, rows))), np.int16)
    for i, row in enumerate(rows):
        table[i, : len(row)] = row
    return torch.from_numpy(table).to(device), torch.tensor([len(r) for r in rows], device=device)


def fit(stage: Stage, device: torch.device, budget: int, seed: int) -> None:
    """Train as `stage` says and export the two networks that ship."""
    torch.manual_seed(seed)
    corpus = Corpus(stage.work / "data", device, ("mel", "whisper", "fbank"))
    table, labels = phone_table(corpus, device)
    model = Model(corpus, LETTERS_FROM + 26).to(device)
    # The codes' running figures have no moving average, so the weights have none either: the cosine ends near zero.
    update = Update([model], lr=8e-4, weight_decay=0.02)

    def step(batch: dict[str, Tensor]) -> dict[str, Tensor]:
        model.train()
        update.zero()
        with autocast(device):
            found = model(corpus, table, labels, batch)
        found["loss"].backward()
        return {**{k: found[k] for k in ("loss", "ctc", "l1", "l2", "voice", "correlation")}, "norm": update.apply()}

    held = list(upload(epoch(corpus, corpus.valid, np.random.default_rng(1), 2048, all_rows=True), device))

    def validate() -> dict[str, float]:
        model.eval()
        sums, wrong, total = dict.fromkeys(("ctc", "l1", "voice"), 0.0), 0, 0
        used = np.zeros(CODES, np.int64)
        with torch.no_grad(), autocast(device):
            for batch, _ in held:
                found = model(corpus, table, labels, batch)
                for k in sums:
                    sums[k] += float(found[k]) / len(held)
                real = batch["tokens"] >= 0
                used += np.bincount(code_ids(found["values"])[real].cpu().numpy(), minlength=CODES)
                for said, clip in zip(greedy(found["log_probs"], real.sum(1)), batch["clip"].tolist(), strict=True):
                    truth = table[clip, : labels[clip]].tolist()
                    wrong, total = wrong + edits(said, truth), total + len(truth)
        share = used[used > 0] / used.sum()
        return {
            **sums,
            "phone_error": wrong / total,
            "codes": float((used > 0).sum()),
            "perplexity": math.exp(-(share * np.log(share)).sum()),
        }

    def export(folder: Path) -> None:
        save_weights(folder / "speech_tokenizer.safetensors", model.tokenizer)
        save_weights(folder / "speaker.safetensors", model.speaker)

    def epochs() -> Iterator[list[Batch]]:
        rng = np.random.default_rng(seed)
        while True:
            yield epoch(corpus, corpus.train, rng, budget)

    train(stage, [update], Graphed(step, device), on_device(epochs(), device), validate, export)


def extract(work: Path, device: torch.device) -> None:
    """Ids and embeddings of every clip, by the exported weights in full float32."""
    corpus = Corpus(work / "data", device, ("whisper", "fbank"))
    tokenizer, speaker = SpeechTokenizer().to(device).eval(), SpeakerEncoder().to(device).eval()
    for module, name in ((tokenizer, "speech_tokenizer"), (speaker, "speaker")):
        module.load_state_dict({k: v.float() for k, v in load_file(work / "export" / f"{name}.safetensors").items()})
    ids = np.full(int(corpus.starts[-1]), -1, np.int16)
    speakers = np.zeros((len(corpus.clips), 192), np.float32)
    order = np.argsort(corpus.lengths, kind="stable")
    torch.set_float32_matmul_precision("highest")
    with torch.no_grad():
        for rows in np.array_split(order, max(1, len(order) // 32)):
            tokens = index_rows(corpus.starts[rows, None], corpus.lengths[rows, None], int(corpus.lengths[rows].max()))
            at = torch.from_numpy(tokens).to(device)
            frames = (at >= 0).sum(1)
            whisper = corpus.arrays["whisper"][expand(at, WHISPER)].float().transpose(1, 2)
            found = tokenizer(whisper, frames * WHISPER).cpu().numpy()
            ids[tokens[tokens >= 0]] = found[tokens >= 0]
            # The last rows of a clip's fbank are repeats (training.data), so they are left out here.
            fbank = corpus.arrays["fbank"][expand(at, FBANK)].float()
            speakers[rows] = speaker(fbank, frames * FBANK - 3).cpu().numpy()
    if (ids < 0).any():
        raise ValueError(f"{int((ids < 0).sum())} tokens of the corpus got no id")
    save_array(work / "speakers.npy", speakers)
    save_array(work / "export" / "tokens.npy", ids)
    save_array(work / "tokens.npy", ids)
    share = np.bincount(ids, minlength=CODES) / len(ids)
    perplexity = math.exp(-(share[share > 0] * np.log(share[share > 0])).sum())
    print(f"{len(ids)} ids, {int((share > 0).sum())} of {CODES} codes used, perplexity {perplexity:.0f}", flush=True)


def main() -> None:
    """Command line entry point."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", type=Path)
    parser.add_argument("--seconds", type=float, default=270)
    parser.add_argument("--batch", type=int, default=8192, help="tokens a batch")
    parser.add_argument("--max-steps", type=int, default=20000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--extract-only", action="store_true", help="use the weights that WORK/export holds already")
    a = parser.parse_args()
    device = pick_device()
    if a.extract_only:
        extract(a.work, device)
        return
    stage = Stage("tokenizer", a.work, a.seconds, max_steps=a.max_steps, final_lr=0.005)
    fit(stage, device, a.batch, a.seed)
    extract(a.work, device)


if __name__ == "__main__":
    main()
