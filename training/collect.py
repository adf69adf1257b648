"""Pack what a run has made so far into a few files of limited size, and put them together again elsewhere.

    python -m training.collect WORK OUT          # there: OUT/weights.tar.00, .01, ... and the ends of the logs
    python -m training.collect --join OUT WORK   # here: unpacks into WORK

Taken are the exported weights, loss tables, logs, vocoder samples and what the tokenizer and the aligner made of the
corpus, the most wanted first, until PARTS * PART bytes are full; what did not fit is named. A run in the joined WORK
goes on after those two: it prepares the corpus again and trains the rest.
"""

from __future__ import annotations

import argparse
import io
import tarfile
from pathlib import Path

PART, PARTS = 15 * 2**20, 4
WANTED = (
    "status.json",
    "logs/*.log",
    "*/*.csv",
    "export/speech_tokenizer.safetensors",
    "export/speaker.safetensors",
    "export/llm.safetensors",
    "export/flow.safetensors",
    "hift_tuned/hift.safetensors",
    "hift/hift.safetensors",
    "logs/tokenizer.done",
    "logs/align.done",
    "tokens.npy",
    "speakers.npy",
    "align.json.gz",
    "export/*.json",
    "hift_tuned/*.wav",
    "hift/*.wav",
)


def wanted(work: Path) -> list[Path]:
    """Files to take, each once, in order."""
    return list(dict.fromkeys(p for pattern in WANTED for p in sorted(work.glob(pattern))))


def pack(work: Path, out: Path) -> list[str]:
    """Write the parts into `out`; returns the names that were left out."""
    out.mkdir(parents=True, exist_ok=True)
    stream, left_out, room = io.BytesIO(), [], PART * PARTS - 20480
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for path in wanted(work):
            data = path.read_bytes()
            room -= len(data) + 1024
            if room < 0:
                room += len(data) + 1024
                left_out.append(str(path.relative_to(work)))
                continue
            entry = tarfile.TarInfo(str(path.relative_to(work)))
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))
    whole = stream.getvalue()
    for part, start in enumerate(range(0, len(whole), PART)):
        (out / f"weights.tar.{part:02d}").write_bytes(whole[start : start + PART])
    return left_out


def join(parts: Path, work: Path) -> None:
    """Unpack what `pack` wrote."""
    found = sorted(parts.glob("weights.tar.*"))
    if not found:
        raise SystemExit(f"no weights.tar.* in {parts}")
    stream = io.BytesIO(b"".join(p.read_bytes() for p in found))
    with tarfile.open(fileobj=stream) as tar:
        for entry in tar:
            path = (work / entry.name).resolve()
            if not path.is_relative_to(work.resolve()):
                raise SystemExit(f"{entry.name} would be written outside of {work}")
            content = tar.extractfile(entry)
            if content is not None:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content.read())


def main() -> None:
    """Command line entry point."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("--join", action="store_true")
    parser.add_argument("--lines", type=int, default=4, help="last lines of each log to print")
    a = parser.parse_args()
    if a.join:
        join(a.source, a.target)
        return
    for log in sorted(a.source.glob("logs/*.log")):
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
        print(f"-- {log.stem}", *lines[-a.lines :], sep="\n")
    for status in a.source.glob("status.json"):
        print(status.read_text())
    left_out = pack(a.source, a.target)
    for path in sorted(a.target.iterdir()):
        print(f"{path.name} {path.stat().st_size / 2**20:.2f} MiB")
    if left_out:
        print("did not fit:", *left_out)


if __name__ == "__main__":
    main()
