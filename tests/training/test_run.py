"""The runner's order and failures with real processes, the packing, and the batches' index arrays."""

from pathlib import Path

import numpy as np
import pytest

from training import collect, loop
from training.data import Batch, bucketed, grams, index_rows, key, nearly, upload
from training.run import Job, Runner, leave_out, recipe


def test_failure_leaves_out_what_needs_it_and_nothing_else(tmp_path: Path) -> None:
    jobs = [
        Job("good", "platform", (), 0),
        Job("bad", "no_such_module", (), 0),
        Job("after_bad", "platform", (), 0, ("bad",)),
        Job("after_good", "platform", (), 0, ("good",)),
        Job("late", "platform", (), 0, seconds=lambda left: left - 1000),
    ]
    runner = Runner(jobs, tmp_path, 60)
    assert not runner.run()
    assert runner.state == {
        "good": "done",
        "bad": "failed",
        "after_bad": "left out",
        "after_good": "done",
        "late": "left out",
    }
    assert runner.tries["bad"] == 2
    assert Runner(jobs, tmp_path, 60).state["good"] == "done"


def test_an_awaited_failure_delays_and_no_more(tmp_path: Path) -> None:
    jobs = [
        Job("late", "platform", (), 0, awaits=("bad", "not_in_this_run")),
        Job("bad", "no_such_module", (), 0),
    ]
    runner = Runner(jobs, tmp_path, 60)
    assert not runner.run()
    assert runner.state == {"late": "done", "bad": "failed"}
    assert (tmp_path / "logs" / "late.done").stat().st_mtime >= (tmp_path / "logs" / "bad.log").stat().st_mtime


def test_the_plan_of_a_long_run(tmp_path: Path) -> None:
    jobs = {job.name: job for job in recipe(tmp_path, tmp_path, 2, 1500, ("12", "15"), ())}
    assert list(jobs) == ["prepare", "hift", "tokenizer", "align", "lm", "flow", "flow_mels", "hift_tuned"]
    assert {n for n, j in jobs.items() if j.gpu == 1} == {"hift", "hift_tuned"}
    assert jobs["lm"].awaits == ("align",) and jobs["align"].after == jobs["lm"].after == ("tokenizer",)
    budgets = {name: job.seconds(1000) for name, job in jobs.items() if job.seconds}
    assert 60 <= budgets["align"] <= 90
    assert budgets["lm"] == budgets["flow"] == budgets["hift"] == 1000 - 0.13 * 1500 - 20
    assert budgets["hift_tuned"] == 980


def test_a_stage_left_out_takes_along_what_needs_it(tmp_path: Path) -> None:
    jobs = recipe(tmp_path, tmp_path, 2, 1500, ("12", "15"), ())
    assert [job.name for job in leave_out(jobs, {"flow", "align"})] == ["prepare", "hift", "tokenizer", "lm"]
    assert leave_out(jobs, set()) == jobs
    with pytest.raises(ValueError, match="no such stage: lm2; there are prepare"):
        leave_out(jobs, {"lm2"})


def test_pack_and_join(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collect, "PART", 16384)
    work, out, back = tmp_path / "work", tmp_path / "out", tmp_path / "back"
    (work / "export").mkdir(parents=True)
    (work / "status.json").write_text("{}")
    (work / "export" / "llm.safetensors").write_bytes(bytes(range(256)) * 80)
    (work / "export" / "flow.safetensors").write_bytes(b"x" * 60000)
    assert collect.pack(work, out) == ["export/flow.safetensors"]
    collect.join(out, back)
    assert (back / "export" / "llm.safetensors").read_bytes() == bytes(range(256)) * 80
    assert all(p.stat().st_size <= 16384 for p in out.iterdir())


def test_a_joined_run_goes_on_after_the_tokenizer_and_the_aligner(tmp_path: Path) -> None:
    work, out, back = tmp_path / "work", tmp_path / "out", tmp_path / "back"
    kept = ["tokens.npy", "speakers.npy", "align.json.gz", "logs/tokenizer.done", "logs/align.done"]
    for name in (*kept, "logs/prepare.done", "logs/lm.done"):
        (work / name).parent.mkdir(parents=True, exist_ok=True)
        (work / name).write_text(name)
    assert collect.pack(work, out) == []
    collect.join(out, back)
    assert all((back / name).read_text() == name for name in kept)
    state = Runner(recipe(tmp_path, back, 1, 60, ("12", "15"), ()), back, 60).state
    assert {name for name, now in state.items() if now == "done"} == {"tokenizer", "align"}


def test_rows_of_pieces() -> None:
    rows = index_rows(np.array([[10, 40], [0, 0]]), np.array([[2, 3], [1, 0]]), 6)
    assert rows.tolist() == [[10, 11, 40, 41, 42, -1], [0, -1, -1, -1, -1, -1]]


def test_buckets_are_full_and_rows_come_once() -> None:
    totals = np.random.default_rng(0).integers(1, 45, size=300)
    made = list(bucketed(np.random.default_rng(1), totals, (10, 20, 40), 80))
    rows = np.concatenate([r for _, r in made])
    assert len(set(rows.tolist())) == len(rows) >= (totals <= 40).sum() - 2
    assert all(len(r) == 80 // width and (totals[r] <= width).all() for width, r in made)


def test_upload_keeps_every_batch() -> None:
    batches = [Batch({"a": np.full((2, i), i, np.int32)}, (i,)) for i in (1, 3)]
    found = list(upload(batches, "cpu"))
    assert [(b["a"].tolist(), v) for b, v in found] == [([[1], [1]], (1,)), ([[3, 3, 3], [3, 3, 3]], (3,))]


def test_near_copies_of_held_out_sentences_are_found() -> None:
    line = grams(key("The train to Leeds was late again this morning."))
    assert nearly(line, grams(key("the train to Leeds was late again this morning")))
    assert not nearly(line, grams(key("The bus to York was late again this evening.")))


def test_schedule_warms_up_and_ends_low() -> None:
    assert loop.schedule(0, 0.0, 100, 0.02) == pytest.approx(0.01)
    assert loop.schedule(500, 0.5, 100, 0.0) == pytest.approx(0.5)
    assert loop.schedule(500, 1.0, 100, 0.02) == pytest.approx(0.02)
