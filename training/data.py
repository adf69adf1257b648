"""The corpus as flat arrays, everything aligned to one token grid, and batches as index arrays over it.

    python -m training.data DATA WORK [--held-out bench/sentences]

DATA holds `manifest.jsonl` and its tar shards, `corpus_ids.jsonl` (training.text.corpus_ids) and, if there, `f0.npz`
(training.f0). WORK/data receives:

| file | shape | what |
| --- | --- | --- |
| clips.json | N | id, lang, voice (index into VOICES), text, split ("train" or "valid") |
| starts.npy | N + 1 | first token of each clip; every other rate is a multiple of the token's |
| audio.npy | 960 a token | int16, 24 kHz |
| mel.npy | 2 a token, [., 80] | float32, log mel at 50 Hz |
| whisper.npy | 4 a token, [., 128] | float16, the tokenizer's input at 100 Hz |
| fbank.npy | 4 a token, [., 80] | float16, the speaker encoder's input, mean removed; a clip's last 3 rows repeat |
| f0.npy | 2 a token | float16 Hz, 0 where unvoiced |
| text.npy, text_starts.npy | | text ids |

A clip is cut to whole tokens (960 samples = 40 ms) first, so token i is exactly mel frames 2i and 2i + 1.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import multiprocessing
import re
import tarfile
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from queue import Queue
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

VOICES = ("af_heart", "am_michael", "bf_emma", "zf_xiaoxiao", "zm_yunxi")
SAMPLES, MEL, WHISPER, FBANK = 960, 2, 4, 4
FORMAT: dict[str, tuple[int, tuple[int, ...], type]] = {
    "audio": (SAMPLES, (), np.int16),
    "mel": (MEL, (80,), np.float32),
    "whisper": (WHISPER, (128,), np.float16),
    "fbank": (FBANK, (80,), np.float16),
    "f0": (MEL, (), np.float16),
}
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Batch:
    """One batch on the host. `arrays` share their first dimension; `variant` goes to the step as it is."""

    arrays: dict[str, npt.NDArray[Any]]
    variant: tuple[Any, ...] = ()


class Corpus:
    """Prepared arrays on a device. `names` of FORMAT are loaded and become attributes of `arrays`."""

    def __init__(self, folder: Path, device: torch.device | str, names: Iterable[str] = ()) -> None:
        self.clips: list[dict[str, Any]] = json.loads((folder / "clips.json").read_text(encoding="utf-8"))
        self.starts: Ints = np.load(folder / "starts.npy")
        self.lengths: Ints = np.diff(self.starts)
        self.text: npt.NDArray[np.int16] = np.load(folder / "text.npy")
        self.text_starts: Ints = np.load(folder / "text_starts.npy")
        self.voice: Ints = np.array([c["voice"] for c in self.clips])
        held = np.array([c["split"] == "valid" for c in self.clips])
        self.train, self.valid = np.flatnonzero(~held), np.flatnonzero(held)
        self.arrays = {name: torch.from_numpy(np.load(folder / f"{name}.npy")).to(device) for name in names}

    def text_of(self, clip: int) -> list[int]:
        """Text ids of one clip."""
        return self.text[self.text_starts[clip] : self.text_starts[clip + 1]].tolist()

    def same_voice(self, rng: np.random.Generator, clips: Ints) -> Ints:
        """For each clip another training clip of its voice."""
        out = np.empty_like(clips)
        for voice in np.unique(self.voice[clips]):
            pool = self.train[self.voice[self.train] == voice]
            rows = np.flatnonzero(self.voice[clips] == voice)
            if not len(pool):
                raise ValueError(f"voice {VOICES[voice]} has no training clip")
            out[rows] = pool[rng.integers(len(pool), size=len(rows))]
        return out


def expand(tokens: Tensor, rate: int) -> Tensor:
    """Rows at `rate` a token: token positions [B, T] (-1 is padding and reads row 0) -> int64 [B, T * rate]."""
    base = tokens.clamp(min=0).long() * rate
    return (base[..., None] + torch.arange(rate, device=tokens.device)).flatten(-2)


def index_rows(starts: Ints, lengths: Ints, width: int) -> npt.NDArray[np.int32]:
    """Token positions of rows made of pieces: `starts`, `lengths` [B, K] -> int32 [B, width], -1 after the last."""
    place = np.arange(width)
    out = np.full((len(starts), width), -1, np.int32)
    offset = np.zeros(len(starts), np.int64)
    for piece in range(starts.shape[1]):
        inside = (place >= offset[:, None]) & (place < (offset + lengths[:, piece])[:, None])
        out = np.where(inside, starts[:, piece, None] + place - offset[:, None], out).astype(np.int32)
        offset = offset + lengths[:, piece]
    return out


def bucketed(
    rng: np.random.Generator, totals: Ints, widths: tuple[int, ...], budget: int, all_rows: bool = False
) -> Iterator[tuple[int, Ints]]:
    """(width, rows) in random order: full batches of budget // width rows whose totals fit in that width.

    Rows left over join the next larger bucket; the last ones are dropped, or with `all_rows`, or where there is no full
    batch at all, make a smaller one. Rows longer than the largest width are dropped.
    """
    made: list[tuple[int, Ints]] = []
    carry = np.empty(0, np.int64)
    below = 0
    for width in widths:
        rows = np.concatenate([carry, rng.permutation(np.flatnonzero((totals > below) & (totals <= width)))])
        size = max(1, budget // width)
        whole = len(rows) // size * size
        made += [(width, rows[i : i + size]) for i in range(0, whole, size)]
        carry, below = rows[whole:], width
    if len(carry) and (all_rows or not made):
        made.append((widths[-1], carry))
    for place in rng.permutation(len(made)):
        yield made[place]


def on_device(
    epochs: Iterator[list[Batch]], device: torch.device
) -> Iterator[tuple[dict[str, Tensor], tuple[Any, ...]]]:
    """Batches of endless `epochs`, which a thread builds ahead. Each epoch travels in one copy for each array name."""
    queue: Queue[list[Batch] | BaseException] = Queue(maxsize=2)

    def build() -> None:
        try:
            for epoch in epochs:
                queue.put(epoch)
        except BaseException as error:  # handed to the consumer, which raises it
            queue.put(error)

    threading.Thread(target=build, daemon=True).start()
    while True:
        epoch = queue.get()
        if isinstance(epoch, BaseException):
            raise RuntimeError("building the next epoch failed") from epoch
        yield from upload(epoch, device)


def upload(epoch: list[Batch], device: torch.device | str) -> Iterator[tuple[dict[str, Tensor], tuple[Any, ...]]]:
    """The batches of one epoch as views of one device tensor for each array name."""
    names = sorted({name for batch in epoch for name in batch.arrays})
    flat = {
        name: torch.from_numpy(np.concatenate([b.arrays[name].ravel() for b in epoch if name in b.arrays])).to(device)
        for name in names
    }
    used = dict.fromkeys(names, 0)
    for batch in epoch:
        views = {}
        for name, array in batch.arrays.items():
            views[name] = flat[name][used[name] : used[name] + array.size].view(array.shape)
            used[name] += array.size
        yield views, batch.variant


def save_array(path: Path, array: npt.NDArray[Any]) -> None:
    """Write a .npy file and put it in place at once: whoever waits for it never sees half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".part")
    with partial.open("wb") as out:
        np.save(out, array)
    partial.rename(path)


def key(text: str) -> str:
    """Letters and digits only, lower case: what makes two sentences the same."""
    return re.sub(r"[\W_]+", "", text.lower())


def grams(key: str) -> frozenset[str]:
    """The runs of four characters of a key."""
    return frozenset(key[i : i + 4] for i in range(max(1, len(key) - 3)))


def nearly(a: frozenset[str], b: frozenset[str]) -> bool:
    """True where two sentences share over 80 % of their runs."""
    return len(a & b) > 0.8 * len(a | b)


def held_out_lines(folder: Path | None) -> list[frozenset[str]]:
    """The runs of every line of the text files of a folder."""
    if folder is None:
        return []
    lines = [line for path in sorted(folder.rglob("*.txt")) for line in path.read_text(encoding="utf-8").splitlines()]
    return [grams(k) for line in lines if (k := key(line))]


def is_valid(name: str) -> bool:
    """One clip in 64 is held out, by its name alone."""
    return int(hashlib.sha256(name.encode()).hexdigest()[:8], 16) % 64 == 0


def prepare(data: Path, out: Path, held_out: Path | None = None, workers: int = 1, limit: int | None = None) -> None:
    """Fill `out` from a corpus folder; does nothing where `out` is complete. `limit` takes the first clips only."""
    if (out / "clips.json").exists():
        return
    out.mkdir(parents=True, exist_ok=True)
    manifest = [json.loads(line) for line in (data / "manifest.jsonl").read_text(encoding="utf-8").splitlines()]
    lines = (data / "corpus_ids.jsonl").read_text(encoding="utf-8").splitlines()
    text_ids: dict[str, list[int]] = {row["id"]: row["ids"] for row in map(json.loads, lines)}
    gates = held_out_lines(held_out)
    kept = [c for c in manifest if c["id"] in text_ids]
    kept = [
        c
        for c, own in zip(kept, [grams(key(c["text"])) for c in kept], strict=True)
        if not any(nearly(own, g) for g in gates)
    ]
    print(f"{len(manifest)} clips, {len(kept)} with text ids and unlike the {len(gates)} held-out lines", flush=True)
    kept = kept[:limit]
    packed = _read_shards(data, {c["shard"] for c in kept}, {c["id"] for c in kept})
    counts = np.array([_tokens_of(packed[c["id"]]) for c in kept])
    starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    pitch = _pitch(data / "f0.npz")
    for name, (rate, shape, kind) in FORMAT.items():
        np.lib.format.open_memmap(out / f"{name}.npy", "w+", kind, (int(starts[-1]) * rate, *shape)).flush()
    jobs = [(out, packed[c["id"]], int(starts[i]), int(counts[i]), pitch.get(c["id"])) for i, c in enumerate(kept)]
    if workers > 1:
        # Fork: the workers inherit the imported modules; no device has been touched yet.
        with multiprocessing.get_context("fork").Pool(
            workers, initializer=torch.set_num_threads, initargs=(1,)
        ) as pool:
            for done, _ in enumerate(pool.imap_unordered(_write, jobs, chunksize=16), 1):
                if done % 2000 == 0:
                    print(f"{done} clips prepared", flush=True)
    else:
        for job in jobs:
            _write(job)
    ids = [text_ids[c["id"]] for c in kept]
    np.save(out / "text.npy", np.concatenate([np.asarray(i, np.int16) for i in ids]))
    np.save(out / "text_starts.npy", np.concatenate([[0], np.cumsum([len(i) for i in ids])]).astype(np.int64))
    np.save(out / "starts.npy", starts)
    clips = [
        {
            "id": c["id"],
            "lang": c["lang"],
            "voice": VOICES.index(c["voice"]),
            "text": c["text"],
            "split": "valid" if is_valid(c["id"]) else "train",
        }
        for c in kept
    ]
    (out / "clips.part").write_text(json.dumps(clips, ensure_ascii=False), encoding="utf-8")
    (out / "clips.part").rename(out / "clips.json")
    print(f"{len(clips)} clips, {int(starts[-1])} tokens, {int(starts[-1]) / 90000:.2f} h", flush=True)


def _read_shards(data: Path, shards: set[str], wanted: set[str]) -> dict[str, bytes]:
    packed: dict[str, bytes] = {}
    for shard in sorted(shards):
        with tarfile.open(data / shard) as tar:
            for member in tar:
                stored = tar.extractfile(member)
                if stored is not None and Path(member.name).stem in wanted:
                    packed[Path(member.name).stem] = stored.read()
    missing = wanted - packed.keys()
    if missing:
        raise FileNotFoundError(
            f"{len(missing)} clips of the manifest are in no shard, {sorted(missing)[0]} among them"
        )
    return packed


def _pitch(path: Path) -> dict[str, npt.NDArray[np.float16]]:
    if not path.exists():
        return {}
    stored = np.load(path)
    values, offsets = stored["values"], stored["offsets"]
    return {str(name): values[offsets[i] : offsets[i + 1]] for i, name in enumerate(stored["ids"])}


def _tokens_of(packed: bytes) -> int:
    import soundfile

    return int(soundfile.info(io.BytesIO(packed)).frames) // SAMPLES


def _write(job: tuple[Path, bytes, int, int, npt.NDArray[np.float16] | None]) -> None:
    """Decode one clip and write its rows; the arrays are mapped, so nothing large travels between processes."""
    import soundfile

    from oscine_engine.features import kaldi_fbank80, mel24k, resample, whisper128

    out, packed, start, count, pitch = job
    pcm, rate = soundfile.read(io.BytesIO(packed), dtype="int16", frames=count * SAMPLES)
    if rate != 24000 or pcm.shape != (count * SAMPLES,):
        raise ValueError(f"expected {count * SAMPLES} mono samples at 24000 Hz, decoded {pcm.shape} at {rate} Hz")
    wave = torch.from_numpy(pcm.astype(np.float32) / 32768)
    low = resample(wave, 24000, 16000)
    fbank = kaldi_fbank80(low).float()
    fbank = fbank - fbank.mean(0)
    short = count * FBANK - len(fbank)
    rows: dict[str, npt.NDArray[Any]] = {
        "audio": pcm,
        "mel": mel24k(wave).T.numpy(),
        "whisper": whisper128(low).T.numpy(),
        "fbank": torch.cat([fbank, fbank[-1:].expand(short, -1)]).numpy(),
        "f0": np.zeros(count * MEL, np.float16) if pitch is None else pitch[: count * MEL],
    }
    for name, (per_token, _, kind) in FORMAT.items():
        if len(rows[name]) != count * per_token:
            raise ValueError(f"{name}: {len(rows[name])} rows for {count} tokens, expected {per_token} each")
        target = np.load(out / f"{name}.npy", mmap_mode="r+")
        target[start * per_token : (start + count) * per_token] = rows[name].astype(kind)


def main() -> None:
    """Command line entry point."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("work", type=Path)
    parser.add_argument("--held-out", type=Path, help="folder of sentences that must not be trained on")
    parser.add_argument("--workers", type=int, default=multiprocessing.cpu_count())
    parser.add_argument("--limit", type=int, help="take only the first clips, to try the recipe")
    a = parser.parse_args()
    prepare(a.data, a.work / "data", a.held_out, a.workers, a.limit)


if __name__ == "__main__":
    main()
