from pathlib import Path

import numpy as np
import pytest
import soundfile

from oscine_engine.errors import InvalidInput
from oscine_service.cli.sinks import FILES, open_sink
from tests.codecs.signals import RATE, voiced


@pytest.mark.parametrize("suffix", FILES)
def test_a_file_of_each_kind_holds_every_sample_and_says_how_many(tmp_path: Path, suffix: str) -> None:
    path, wave = tmp_path / f"x{suffix}", voiced(30001)
    with open_sink(path, RATE) as sink:
        for at in range(0, len(wave), 7000):
            sink.write(wave[at : at + 7000])
    info = soundfile.info(path)
    assert (info.channels, info.duration) == (1, pytest.approx(len(wave) / RATE))
    heard, rate = soundfile.read(path, dtype="float32")
    assert np.abs(np.corrcoef(heard[:: rate // RATE][:30001], wave)[0, 1]) > 0.9
    assert [each.name for each in tmp_path.iterdir()] == [path.name]


def test_other_names_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"\.mp3, \.flac"), open_sink(tmp_path / "x.aac", RATE):
        pass
