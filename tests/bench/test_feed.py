"""What an agent writes, and when a gap is explained by it."""

from bench.feed import EXCUSE_S, LONGEST_STALL_S, STALLS, Heard, Working, row, scripts, tokens
from bench.player import Gap
from oscine_engine.events import Mode, Stats
from oscine_engine.lm.interleave import Prompt
from oscine_engine.runtime.trace import Said

LINES = ["I have found your account.", "Sure thing.", "Hi, thanks for calling.", "Please hold the line.", "Goodbye."]


def test_tokens_are_pieces_of_words_and_lose_nothing() -> None:
    assert tokens("Reservations, at 7:30 pm. ") == ["Reser", "vatio", "ns,", " at", " 7:30", " pm.", " "]
    for line in LINES:
        assert "".join(tokens(line)) == line


def test_agents_are_the_same_each_time() -> None:
    agents = scripts(6, LINES)
    assert agents == scripts(6, LINES)
    assert [agent.mode for agent in agents] == [*Mode, *Mode]
    assert len({agent.seed for agent in agents}) == 6
    for agent in agents:
        assert len(agent.stalls) == STALLS
        assert all(0 < place < len(agent.pieces) for place in agent.stalls)
        assert all(0 < seconds <= LONGEST_STALL_S for seconds in agent.stalls.values())


def test_a_gap_needs_an_explanation_only_after_long_work() -> None:
    working = Working()
    for now, state in ((0.0, False), (1.0, True), (1.5, True), (5.0, False), (9.0, True)):
        working.note(now, state)
    assert [working.since(at) for at in (0.5, 1.0, 4.9, 5.0, 10.0)] == [None, 1.0, 1.0, None, 9.0]
    gaps = [Gap(0.5, 1.0), Gap(1.0 + EXCUSE_S, 1.0), Gap(1.1 + EXCUSE_S, 1.0), Gap(6.0, 1.0), Gap(9.5, 1.0)]
    assert working.unexplained(gaps) == 1


def heard(text: tuple[int, ...], ids: tuple[int, ...], cut: int | None = None) -> Heard:
    parts = [(text, ids)] if cut is None else [(text[:cut], ids[:cut]), (text[cut:], ids[cut:])]
    said = tuple(Said(1, at, i, Prompt(), t, False, ((0, 1),)) for at, (t, i) in enumerate(parts))
    return Heard(Stats(1.0, len(parts), len(ids), 0.1, 0.2, starved=1, starved_s=0.5), (Gap(1.0, 0.5),), 0, said)


def test_a_row_counts_what_differs_from_the_undisturbed_run() -> None:
    agents = scripts(4, LINES)
    alone = [heard((1, 2), (7, 8)) for _ in range(4)]
    fed = [heard((1, 2), (7, 8)), heard((1, 2), (7, 8), cut=1), heard((1,), (7, 8)), "overloaded: no"]
    result = row(20, agents, fed, alone)
    assert (result["sessions"], result["failed"], result["errors"]) == (4, 1, ["overloaded: no"])
    assert (result["unspoken"], result["other_segments"], result["other_ids"]) == (1, 2, 1)
    assert (result["underruns"], result["starved"], result["starved_s"]) == (0, 3, 1.5)
    assert (result["gaps"], result["gap_s"], result["unexplained"]) == (3, 1.5, 0)
