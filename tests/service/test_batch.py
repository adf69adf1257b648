"""`oscine batch`: lists as people have them, and a folder that any interrupted run can be carried on in."""

import argparse
import asyncio
import json
import math
import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import soundfile

from oscine_engine.checkpoint.load import Checkpoint
from oscine_engine.engine import Engine
from oscine_engine.errors import InvalidInput, Overloaded
from oscine_engine.events import Mode, SessionRequest
from oscine_engine.front import Front, VoiceInfo, read_front_end
from oscine_engine.port import Deliver, StreamOptions
from oscine_engine.settings import EngineSettings
from oscine_service.batch import lists
from oscine_service.batch.journal import NAME, Journal
from oscine_service.batch.lists import Line
from oscine_service.batch.packing import PATIENCE, Job, speak, speak_all
from oscine_service.cli import batch
from tests.engine.ports import HandPort, HandStream

PATIENCE_S = 120
HERE = Path("/lists/of.txt")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("Good morning.", Line("000001", "Good morning.")),
        ("a-1|Good morning.", Line("a-1", "Good morning.")),
        ("a|heart|Good morning.", Line("a", "Good morning.", voice="heart")),
        ("a||Good morning.", Line("a", "Good morning.")),
        (
            "10002287-00000095|在此奉劝大家。|prompt-wavs/1.wav|今天天气很好。",
            Line(
                "10002287-00000095",
                "今天天气很好。",
                recording=Path("/lists/prompt-wavs/1.wav"),
                transcript="在此奉劝大家。",
            ),
        ),
        (
            "a|Hello.|p/1.wav|Good morning.|wavs/1.wav",
            Line("a", "Good morning.", recording=Path("/lists/p/1.wav"), transcript="Hello."),
        ),
        ("a|Hello.|/else/1.wav|Hi.", Line("a", "Hi.", recording=Path("/else/1.wav"), transcript="Hello.")),
        (
            '{"text": "a | b", "mode": "auto", "seed": 3, "speed": 1.5, "voice": null}',
            Line("000001", "a | b", mode=Mode.AUTO, seed=3, speed=1.5),
        ),
        ("\ufeff\n\n", None),
    ],
)
def test_every_form_of_list_is_read(text: str, line: Line | None) -> None:
    if line is None:
        with pytest.raises(InvalidInput, match="nothing to say"):
            lists.parse(text.lstrip("\ufeff"), HERE)
    else:
        assert lists.parse(text, HERE) == [line]


def test_lines_are_called_by_their_number_in_the_file() -> None:
    assert [line.id for line in lists.parse("one\n\nthree\r\n", HERE)] == ["000001", "000003"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a|one\nb|two|three", ["line 2", "3 columns", "first line 2"]),
        ("a|b|c|d|e|f", ["6 columns"]),
        ("a|one\na|two", ["line 2", "'a'", "line 1"]),
        ("../a|one", ["'../a'", "file"]),
        ("中" * 67 + "|one", ["file", "200 bytes"]),
        ("a|", ["line 1", "no text"]),
        ('{"text": "a"}\nplain', ["line 2", "JSON"]),
        pytest.param('{"text": ' * 100_000, ["line 1", "JSON"], id="deep"),
        ('{"text": "a", "tempo": 2}', ["'tempo'", "speed"]),
        ('{"text": 3}', ["text", "string"]),
        ('{"text": "a", "seed": true}', ["seed", "number"]),
        ('{"text": "a", "mode": "slow"}', ["'slow'", "interleaved"]),
        ('{"text": "a", "voice": "b", "recording": "c"}', ["voice", "recording"]),
        ('{"text": "a", "transcript": "b"}', ["no recording"]),
    ],
)
def test_a_list_that_is_none_is_refused_with_its_line(text: str, words: list[str]) -> None:
    with pytest.raises(InvalidInput) as refused:
        lists.parse(text, HERE)
    assert all(word in str(refused.value) for word in words), str(refused.value)


def test_a_list_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="nowhere: No such file"):
        lists.read(tmp_path / "nowhere")
    (tmp_path / "latin").write_bytes("Grüße".encode("latin-1"))
    with pytest.raises(InvalidInput, match=r"latin is not UTF-8 text \(byte 2\)"):
        lists.read(tmp_path / "latin")
    (tmp_path / "marked").write_bytes(b"\xef\xbb\xbfa|One.\n")
    assert lists.read(tmp_path / "marked") == [Line("a", "One.")]


def test_a_journal_outlives_a_run_that_was_killed(tmp_path: Path) -> None:
    (tmp_path / "a.wav").touch()
    (tmp_path / "c.wav").touch()
    with Journal(tmp_path) as journal:
        journal.add({"id": "a", "key": "1", "file": "a.wav"})
        journal.add({"id": "b", "key": "1", "error": "went wrong"})
        journal.add({"id": "c", "key": "1", "file": "c.wav"})
    whole = (tmp_path / NAME).read_bytes()
    for cut in (1, 20):
        (tmp_path / NAME).write_bytes(whole[:-cut])
        with Journal(tmp_path) as journal:
            assert journal.done("a", "1") is not None
            assert journal.done("a", "2") is journal.done("b", "1") is journal.done("c", "1") is None
            journal.add({"id": "c", "key": "1", "file": "c.wav"})
        assert (tmp_path / NAME).read_bytes() == whole
    (tmp_path / "a.wav").unlink()
    with Journal(tmp_path) as journal:
        assert journal.done("a", "1") is None
    (tmp_path / NAME).write_text("somebody's own notes\n")
    with pytest.raises(InvalidInput, match="line 1"):
        Journal(tmp_path)


def test_two_runs_in_one_folder_are_kept_apart(tmp_path: Path) -> None:
    with Journal(tmp_path), pytest.raises(InvalidInput, match="another run writes into"):
        Journal(tmp_path)
    Journal(tmp_path).__exit__(None, None, None)


class Refusing(HandPort):
    """Refuses every stream whose seed is 13, and counts how often."""

    refusals = 0

    async def open(self, options: StreamOptions, deliver: Deliver) -> HandStream:
        if options.seed == 13:
            self.refusals += 1
            raise Overloaded("it can never fit", 0.001)
        return await super().open(options, deliver)


async def test_a_line_that_is_refused_for_ever_is_given_up_once_nobody_is_in_its_way(model: Path) -> None:
    port = Refusing()
    front = Front(port, read_front_end(model), {"anna": VoiceInfo("en", "")}, 24000)
    jobs = [Job(str(seed), "One of us.", partial(SessionRequest, seed=seed)) for seed in (1, 13, 2)]
    said = speak_all(front, jobs, 2)
    first = asyncio.ensure_future(anext(said))
    async with asyncio.timeout(PATIENCE_S):
        # The first line has a place, so the second one may yet get it.
        while port.refusals < 3 * PATIENCE:
            await asyncio.sleep(0.001)
        assert not first.done()
        port.streams[0].run()
        ended = [await first]
        while len(ended) < 3:
            following = asyncio.ensure_future(anext(said))
            while not following.done():
                for stream in port.streams:
                    stream.run()
                await asyncio.sleep(0.001)
            ended.append(following.result())
    errors = {each.job.name: each.error for each in ended}
    assert isinstance(errors["13"], Overloaded) and errors["1"] is errors["2"] is None


def options(*arguments: "str | Path") -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    batch.add_arguments(parser)
    return parser.parse_args(list(map(str, arguments)))


def told(folder: Path) -> dict[str, dict[str, object]]:
    rows = [json.loads(row) for row in (folder / NAME).read_text().splitlines()]
    return {row["id"]: row for row in rows}


async def test_lines_are_said_together_as_they_are_alone(checkpoint: Checkpoint) -> None:
    texts = {"a": "One of us.", "b": "We two.", "c": "Three."}
    jobs = [Job(name, text, partial(SessionRequest, mode=Mode.SENTENCE, seed=5)) for name, text in texts.items()]
    async with Engine(checkpoint, EngineSettings(max_streams=3, utilisation=math.inf)) as engine:
        many = {said.job.name: said async for said in speak_all(engine, jobs, 3)}
        # One at a time, they end in their order.
        alone = [said async for said in speak_all(engine, jobs, 1)]
        left = speak_all(engine, jobs, 3)
        await anext(left)
        await left.aclose()
        async with asyncio.timeout(PATIENCE_S):
            while engine.load_now != (0, 0):
                await asyncio.sleep(0.01)
    assert [said.job.name for said in alone] == list(texts)
    for said in alone:
        other = many[said.job.name]
        assert said.error is None and said.stats is not None
        assert len(said.samples) == len(other.samples) == round(said.stats.audio_s * 24000) > 2400
        assert np.abs(said.samples - other.samples).max() < 2e-3
        assert all(0 < at < len(said.samples) for at in said.joins)


async def test_what_fails_is_told_and_only_what_is_left_is_said(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [
        {"id": "a", "text": "One of us."},
        {"id": "b", "text": "Two.", "voice": "nobody"},
        {"id": "c", "text": "Three."},
        {"id": "d", "text": "Four.", "speed": 9},
    ]
    (tmp_path / "list").write_text("\n".join(map(json.dumps, lines)))
    given, settings = options(tmp_path / "list", "-o", tmp_path / "out"), EngineSettings(model=model)
    with pytest.raises(batch.SomeFailed, match="2 of 4"):
        await batch.batch(given, settings)
    found = told(tmp_path / "out")
    assert "nobody" in str(found["b"]["error"]) and "speed" in str(found["d"]["error"])
    assert found["a"]["file"] == "a.wav" and found["a"]["voice"] is None
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["a.wav", "c.wav", NAME]
    before = {name: (tmp_path / "out" / f"{name}.wav").stat().st_mtime_ns for name in "ac"}
    capsys.readouterr()

    lines[1:] = [{"id": "b", "text": "Two."}, {"id": "c", "text": "Thirty."}]
    (tmp_path / "list").write_text("\n".join(map(json.dumps, lines)))
    await batch.batch(given, settings)
    printed = capsys.readouterr()
    assert "2 of 3 lines said, 1 were there already" in printed.out and "2/2" in printed.err
    after = {name: (tmp_path / "out" / f"{name}.wav").stat().st_mtime_ns for name in "abc"}
    assert after["a"] == before["a"] and after["c"] > before["c"]
    await batch.batch(given, settings)
    assert "0 of 3 lines said, 3 were there already" in capsys.readouterr().out


@pytest.mark.slow
async def test_lines_are_said_in_the_voices_of_their_recordings(tmp_path: Path) -> None:
    words = "The morning train to the coast was late again, so we walked along the river."
    async with Engine.load() as engine:
        said = await speak(engine, Job("a", words, lambda: SessionRequest(voice="michael", mode=Mode.SENTENCE, seed=3)))
    soundfile.write(tmp_path / "mike.flac", said.samples, 24000)
    (tmp_path / "meta.lst").write_text(
        f"a|{words}|mike.flac|Good morning.\nb|Well.|mike.flac|Good night.\nc|Hi.|gone.wav|Hi.\n"
    )
    with pytest.raises(batch.SomeFailed, match="2 of 3"):
        await batch.batch(options(tmp_path / "meta.lst", "-o", tmp_path / "out"), EngineSettings())
    found = told(tmp_path / "out")
    assert found["a"]["recording"] == str(tmp_path / "mike.flac")
    assert "transcript" in str(found["b"]["error"]) and "too short" in str(found["b"]["error"])
    assert "gone.wav" in str(found["c"]["error"])
    samples, _ = soundfile.read(tmp_path / "out" / "a.wav")
    assert np.abs(samples).max() > 0.05


@pytest.mark.slow
def test_a_killed_run_is_carried_on(model: Path, tmp_path: Path) -> None:
    (tmp_path / "list").write_text("".join(f"{number}|Line {number}.\n" for number in range(8)))
    command = [sys.executable, "-m", "oscine_service.cli", "batch", str(tmp_path / "list"), "-o", str(tmp_path / "out")]
    command += ["--model", str(model), "--together", "2"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    until = time.monotonic() + PATIENCE_S
    while not (tmp_path / "out" / NAME).exists() or not (tmp_path / "out" / NAME).read_bytes():
        assert process.poll() is None and time.monotonic() < until
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    there = len((tmp_path / "out" / NAME).read_bytes().splitlines())
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 0, done.stderr
    assert f"{there} were there already" in done.stdout and "failed" not in done.stdout
    for number in range(8):
        samples, _ = soundfile.read(tmp_path / "out" / f"{number}.wav")
        assert len(samples) > 2400
