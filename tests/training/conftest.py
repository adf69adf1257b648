"""A prepared folder of a few seconds of made-up clips: the stages run on it as on the real one."""

import json
from pathlib import Path

import numpy as np
import pytest

from training import sizes
from training.data import FORMAT

LENGTHS = (12, 17, 20, 31, 15, 25)


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """WORK with data, tokens and speakers; clips 0 to 3 train, 4 and 5 are held out."""
    rng = np.random.default_rng(5)
    data = tmp_path / "data"
    data.mkdir()
    starts = np.concatenate([[0], np.cumsum(LENGTHS)])
    total = int(starts[-1])
    np.save(data / "starts.npy", starts)
    for name, (rate, shape, kind) in FORMAT.items():
        values = rng.normal(size=(total * rate, *shape))
        if name == "mel":
            values -= 5  # about the mean of a log mel
        np.save(data / f"{name}.npy", (values * (1000 if kind == np.int16 else 1)).astype(kind))
    text = [[sizes.SPACE + 7 + int(i) for i in rng.integers(26, size=n // 3)] for n in LENGTHS]
    np.save(data / "text.npy", np.concatenate(text).astype(np.int16))
    np.save(data / "text_starts.npy", np.concatenate([[0], np.cumsum([len(t) for t in text])]))
    clips = [
        {"id": f"c{i}", "lang": "en", "voice": i % 2, "text": "", "split": "train" if i < 4 else "valid"}
        for i in range(len(LENGTHS))
    ]
    (data / "clips.json").write_text(json.dumps(clips), encoding="utf-8")
    np.save(tmp_path / "tokens.npy", rng.integers(sizes.LM.speech_token_size, size=total).astype(np.int16))
    np.save(tmp_path / "speakers.npy", rng.normal(size=(len(LENGTHS), 192)).astype(np.float32))
    return tmp_path
