"""Failure drills: the parts by themselves, and with `make drills` each drill on a real service.

What was lost counts; what was late is told by the clock of a machine that may be busy.
"""

import json
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from bench.drills.__main__ import FAILED, MARK, NOT_ALL, PAGE, RESULTS, _run, status, table, with_table
from bench.drills.catalogue import DRILLS
from bench.drills.clock_jump import Clock
from bench.drills.flooding import _parts
from bench.drills.outcome import Outcome, Skipped
from bench.drills.relay import Line


@pytest.mark.drills
@pytest.mark.parametrize("name", [drill.name for drill in DRILLS])
def test_nothing_is_lost(name: str) -> None:
    command = [sys.executable, "-m", "bench", "drills", "--short", "--json", "--only", name]
    done = subprocess.run(command, capture_output=True, text=True)
    result = json.loads(done.stdout)
    (told,) = result["drills"]
    if told["skipped"]:
        pytest.skip(told["skipped"])
    assert told["lost"] == [], done.stderr[-4000:]
    assert told["happened"] and told["figures"] and done.returncode == status([told])


def test_help_names_every_drill_and_the_keys() -> None:
    command = [sys.executable, "-m", "bench", "drills", "--help"]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "Keys of the printed object" in told
    assert all(f"\n    {drill.name} " in told for drill in DRILLS)


def test_the_documentation_has_the_table_of_what_was_recorded() -> None:
    page = PAGE.read_text()
    assert with_table(page, table(RESULTS)) == page


def test_a_table_takes_the_place_of_the_one_before() -> None:
    assert with_table(f"a\n{MARK}\n\nold\nrows\n\n## b\n", "new") == f"a\n{MARK}\n\nnew\n\n## b\n"
    assert with_table(f"a\n{MARK}\n\nold\n", "new") == f"a\n{MARK}\n\nnew\n"
    with pytest.raises(ValueError, match="no place"):
        with_table("a", "new")


def test_the_exit_status_tells_what_was_lost_from_what_was_skipped() -> None:
    good: dict[str, Any] = {"skipped": None, "lost": [], "late": []}
    skipped = {"skipped": "no disk"}
    assert status([good]) == 0
    assert status([good, skipped]) == NOT_ALL
    assert status([skipped, good | {"lost": ["a voice"]}]) == status([good | {"late": ["a call"]}]) == FAILED


def test_promises_are_judged() -> None:
    found = Outcome()
    found.keep(True, "nothing")
    found.in_time("it", 1.0, 1.0)
    found.playing("a call", [0.1, 0.5])
    found.recovered(2.0, 3.0)
    assert (found.lost, found.late, found.recovered_s) == ([], [], 2.0)
    found.keep(False, "a voice is gone")
    found.playing("a call", [0.1, 0.6])
    found.recovered(4.0, 3.0)
    assert found.lost == ["a voice is gone"]
    assert len(found.late) == 2 and "0.60 s" in found.late[0] and "4.0 s" in found.late[1]


def test_a_drill_that_hangs_is_ended_with_what_it_started() -> None:
    began = time.monotonic()
    code = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import time; time.sleep(600)'])"
    assert "longer than 0.5 s" in _run([sys.executable, "-c", code], 0.5)
    assert time.monotonic() - began < 60


def test_packets_are_late_in_order_or_lost() -> None:
    line = Line(random.Random(1), delay=0.1, jitter=0.05, loss=0.25)
    packets = [bytes([number]) for number in range(200)]
    came: list[bytes] = []
    for number, packet in enumerate(packets):
        line.take(number / 100, packet)
        assert line.next is None or line.next >= number / 100 - 1.0
        came += line.due(number / 100)
    assert len(came) < len(packets) - 5, "none was late"
    came += line.due(10.0)
    assert came == [packet for packet in packets if packet in came], "one has passed another"
    carried, dropped = line.told()
    assert carried == len(came) and carried + dropped == 200 and 30 <= dropped <= 70
    assert line.told() == (0, 0) and line.next is None


def test_a_good_line_is_none() -> None:
    line = Line(random.Random(1))
    line.take(5.0, b"now")
    assert line.due(4.9) == [] and line.due(5.0) == [b"now"]


def test_only_this_machine_is_flooded() -> None:
    assert _parts("127.0.0.1:80") == ("127.0.0.1", 80)
    with pytest.raises(ValueError, match="only this machine"):
        _parts("10.0.0.1:80")


def test_a_clock_jumps_and_waits_end_when_they_should(tmp_path: Path) -> None:
    try:
        clock = Clock(tmp_path)
    except Skipped as reason:
        pytest.skip(str(reason))
    code = (
        "import queue, sys, time\n"
        "for _ in sys.stdin:\n"
        "    began = time.monotonic()\n"
        "    try: queue.Queue().get(timeout=0.1)\n"
        "    except queue.Empty: pass\n"
        "    print(time.time(), time.monotonic() - began, flush=True)\n"
    )
    pipe = subprocess.PIPE
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=pipe, stdout=pipe, text=True, env=clock.environment()
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        for off in (0, 86400, -86400, 0):
            clock.jump(off)
            print(file=process.stdin, flush=True)
            said, waited = map(float, process.stdout.readline().split())
            assert abs(said - time.time() - off) < 60 and 0.1 <= waited < 60
        process.stdin.close()
