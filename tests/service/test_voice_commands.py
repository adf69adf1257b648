"""`oscine voices` and a service that speaks in what it made, as their users meet them."""

import asyncio
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import soundfile

from oscine_engine.checkpoint import layout
from oscine_engine.checkpoint.voices import read_voices
from oscine_engine.engine import Engine, EngineSettings
from oscine_engine.errors import StoreError, UnknownVoice
from oscine_engine.events import Audio, Done, Mode, SessionRequest
from oscine_engine.voices.store import VoiceStore
from oscine_service.cli.main import main
from oscine_service.unit.front import unit

TEXT = "The morning train to the coast was late again, so we walked along the river."


def oscine(*arguments: str, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **({"OSCINE_VOICES": str(folder)} if folder else {})}
    command = [sys.executable, "-m", "oscine_service.cli", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The embedded voice, with a second of silence around it, as somebody records it."""
    path = tmp_path_factory.mktemp("recording") / "mike.flac"
    soundfile.write(path, asyncio.run(said()), 24000)
    return path


async def said() -> np.ndarray:
    request = SessionRequest(voice="michael", seed=3, mode=Mode.SENTENCE)
    async with Engine.load() as engine, await engine.open(request) as session:
        await session.append(TEXT)
        await session.finish()
        parts = [event.samples async for event in session if isinstance(event, Audio)]
    silence = np.zeros(24000, np.float32)
    return np.concatenate([silence, *parts, silence])


async def test_a_voice_is_added_spoken_in_exported_and_removed(recording: Path, tmp_path: Path) -> None:
    folder = tmp_path / "voices"
    added = oscine("voices", "add", "mike", str(recording), "--transcript", TEXT, folder=folder)
    assert (added.returncode, added.stderr) == (0, "")
    assert added.stdout.startswith("mike: en, ")
    listed = oscine("voices", folder=folder).stdout.splitlines()
    assert [line.split()[0] for line in listed] == ["heart", "michael", "emma", "xiaoxiao", "yunxi", "mike"]
    assert f"transcript   {TEXT}" in oscine("voices", "show", "mike", folder=folder).stdout

    async with Engine.load(EngineSettings(voices=folder)) as engine:
        for mode in (Mode.SENTENCE, Mode.INTERLEAVED):
            async with await engine.open(SessionRequest(voice="mike", seed=1, mode=mode)) as session:
                await session.append("It will rain in the evening.")
                await session.finish()
                events = [event async for event in session]
            assert isinstance(events[-1], Done) and events[-1].stats.audio_s > 0.8

        # What is added, replaced or removed while it runs counts from the next session on.
        VoiceStore(folder).remove("mike")
        with pytest.raises(UnknownVoice, match="mike"):
            await engine.open(SessionRequest(voice="mike"))
        assert oscine("voices", "add", "mike", str(recording), folder=folder).returncode == 0
        async with await engine.open(SessionRequest(voice="mike", seed=1)) as session:
            await session.append("Back again.")
            await session.finish()
            assert [event async for event in session if isinstance(event, Audio)]

    refused = oscine("voices", "export", "mike", str(recording / "x.pt"), folder=folder)
    assert (
        refused.returncode == 1 and refused.stderr.startswith("oscine: cannot write") and "Trace" not in refused.stderr
    )
    exported = tmp_path / "new" / "mike.pt"
    assert oscine("voices", "export", "mike", str(exported), folder=folder).returncode == 0
    assert list(read_voices(exported, str)) == ["mike"]
    assert oscine("voices", "remove", "mike", folder=folder).returncode == 0
    imported = oscine("voices", "import", str(exported), folder=folder)
    assert (imported.returncode, imported.stdout[:9]) == (0, "mike: en,")


def test_what_cannot_be_done_is_said(
    recording: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = tmp_path / "notes.txt"
    text.write_text("not a sound")
    cases = [
        (("add", "mike", str(recording)), None, "OSCINE_VOICES"),
        (("add", "heart", str(recording)), tmp_path, "take another name"),
        (("add", "../mike", str(recording)), tmp_path, "cannot be called"),
        (("add", "mike", str(text)), tmp_path, "not a readable audio file"),
        (("add", "mike", str(tmp_path / "none.wav")), tmp_path, "cannot read the recording"),
        (("add", "mike", str(recording), "--transcript", "Yes."), tmp_path, "too short"),
        (("add", "mike", str(recording), "--transcript", "The morning поезд"), tmp_path, "'поезд'"),
        (("show", "nobody"), tmp_path, "no voice 'nobody'"),
        (("remove", "nobody"), tmp_path, "no voice 'nobody'"),
    ]
    for arguments, folder, reason in cases:
        if folder is not None:
            monkeypatch.setenv("OSCINE_VOICES", str(folder))
        assert main(["voices", *arguments]) == 1, arguments
        told = capsys.readouterr()
        assert told.out == "" and reason in told.err and told.err.count("\n") == 1, (arguments, told.err)


async def test_an_engine_process_speaks_in_the_voices_of_a_store(tmp_path: Path) -> None:
    files = layout.find()
    assert files.voices is not None
    store = VoiceStore(tmp_path)
    async with unit(EngineSettings(voices=tmp_path)) as started:
        with pytest.raises(UnknownVoice, match="copy"):
            await started.front.open(SessionRequest(voice="copy"))
        store.add(replace(read_voices(files.voices, str)["emma"], name="copy"))
        async with await started.front.open(SessionRequest(voice="copy", seed=1)) as session:
            await session.append("It will rain.")
            await session.finish()
            events = [event async for event in session]
        assert isinstance(events[-1], Done) and events[-1].stats.audio_s > 0.4


async def test_a_store_that_cannot_be_used_keeps_an_engine_from_starting(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match="cannot be used"):
        async with unit(EngineSettings(voices=tmp_path / "file")):
            pass
