"""What `oscine top` makes of two readings of metrics, and how it draws that."""

import pytest

from oscine_engine.errors import InvalidInput
from oscine_service.top import screen, standing
from oscine_service.top.samples import Span, read
from oscine_service.top.standing import Service


def page(calls: int = 0, refused: int = 0, within: tuple[int, int, int] = (0, 0, 0), **engine: float) -> str:
    """A page of one engine. within: calls whose first packet took at most 0.1 s, at most 0.2 s, and any time."""
    told = {"streams": 3, "places": 8, "computing": 0.0, "ticks": 0, "tick_s": 0.0, "batch": 0, "restarts": 0} | engine
    return "\n".join(
        (
            'oscine_calls_open{protocol="grpc"} 2',
            'oscine_calls_open{protocol="websocket"} 1',
            f'oscine_calls_total{{protocol="grpc",outcome="ok"}} {calls}',
            f'oscine_calls_total{{protocol="grpc",outcome="unavailable"}} {calls / 10}',
            f'oscine_refused_total{{protocol="grpc",outcome="overloaded"}} {refused}',
            *(
                f'oscine_first_packet_seconds_bucket{{protocol="grpc",le="{bound}"}} {count}'
                for bound, count in zip(("0.1", "0.2", "+Inf"), within, strict=True)
            ),
            "oscine_memory_used_bytes 1e9",
            "oscine_memory_limit_bytes 4e9",
            'oscine_engine_up{engine="0"} 1.0',
            f'oscine_engine_streams{{engine="0"}} {told["streams"]}',
            f'oscine_engine_places{{engine="0"}} {told["places"]}',
            f'oscine_engine_restarts_total{{engine="0"}} {told["restarts"]}',
            f'oscine_engine_stream_seconds_total{{engine="0",state="computing"}} {told["computing"]}',
            f'oscine_engine_tick_seconds_count{{engine="0",stage="lm"}} {told["ticks"]}',
            f'oscine_engine_tick_seconds_sum{{engine="0",stage="lm"}} {told["tick_s"]}',
            f'oscine_engine_batch_streams_count{{engine="0",stage="lm"}} {told["ticks"]}',
            f'oscine_engine_batch_streams_sum{{engine="0",stage="lm"}} {told["batch"]}',
            "",
        )
    )


def seen(before: str, now: str, seconds: float = 10.0) -> Service:
    return standing.service("a:8080", Span(read(before, 100.0), read(now, 100.0 + seconds)))


def test_what_happened_in_between() -> None:
    found = seen(
        page(100, 5, (50, 90, 100), computing=7, ticks=1000, tick_s=10, batch=2000),
        page(120, 10, (54, 106, 120), computing=32, ticks=1500, tick_s=15, batch=3250),
    )
    assert (found.calls, found.ended, found.refused, found.failed) == pytest.approx((3, 2.2, 0.5, 0.2))
    # Of 20 calls 4 took at most 0.1 s, 16 at most 0.2: half of them, 6 of these 12 more.
    assert found.first_packet_p50 == pytest.approx(0.15)
    assert found.first_packet_p95 == 0.2, "beyond the last bound nothing is known but that"
    assert found.memory_share == 0.25 and found.late is None
    (engine,) = found.engines
    assert engine.up and (engine.streams, engine.places, engine.computing) == (3, 8, 2.5)
    assert engine.pages is None and engine.memory is None
    (stage,) = engine.stages
    assert (stage.stage, stage.ticks, stage.tick_s, stage.batch, stage.share) == ("lm", 50, 0.01, 2.5, 0.5)


def test_a_service_that_began_again_counts_from_nothing() -> None:
    found = seen(page(100, 5, ticks=1000, tick_s=10), page(10, 0, ticks=100, tick_s=1))
    assert found.ended == pytest.approx(1.1) and found.refused == 0
    assert found.engines[0].stages[0].ticks == 10


def test_nothing_happened() -> None:
    found = seen(page(100, 5, (1, 1, 1)), page(100, 5, (1, 1, 1)), seconds=0.0)
    assert found.ended == 0 and found.first_packet_p50 is None
    assert found.engines[0].stages[0].tick_s is None


def test_what_is_no_page_of_metrics_is_refused() -> None:
    with pytest.raises(InvalidInput, match="no page of metrics"):
        read("<html>hello there</html>", 0.0)


@pytest.mark.parametrize("width", [40, 80, 100, 200])
def test_lines_fit(width: int) -> None:
    services = [
        seen(page(), page(20, 1, (20, 20, 20), computing=2e6, ticks=9, tick_s=1, batch=9)),
        Service("speech-with-a-long-name.example.com:8080", trouble="Connection refused, by whoever is there " * 5),
    ]
    drawn = screen.lines(services, "12:00:00", width)
    assert all(len(line) <= width for line in drawn)
    assert sum(line.startswith("a:8080/0") for line in drawn) == 2
    assert any(line.startswith("~") and "com:8080 Connection" in line for line in drawn) is (width > 30)
    if width >= 80:
        assert "1 of 2 services answer" in drawn[0]
        (row,) = [line for line in drawn if line.startswith("a:8080  ")]
        assert row.split()[:4] == ["a:8080", "3", "2.2", "0.1"]
    if width == 200:
        assert any(line.endswith("P95 ms") for line in drawn)


def test_what_others_say_moves_no_cursor() -> None:
    hostile = page().replace('engine="0"', 'engine="\x1b[2J\x07"')
    drawn = screen.lines([seen(hostile, hostile), Service("b:1", trouble="answers 302 \x1b]0;x\x07")], "12:00:00")
    assert all(line.isprintable() for line in drawn) and any("answers 302 ?]0;x?" in line for line in drawn)


def test_a_low_terminal_says_that_there_is_more() -> None:
    services = [seen(page(), page())] * 9
    whole = screen.lines(services, "12:00:00")
    drawn = screen.lines(services, "12:00:00", height=10)
    assert len(whole) > 20 and len(drawn) == 10
    assert drawn[:-1] == whole[:9] and f"{len(whole) - 9} more lines" in drawn[-1]


def test_an_engine_that_is_down_is_seen() -> None:
    down = page().replace('oscine_engine_up{engine="0"} 1.0', 'oscine_engine_up{engine="0"} 0.0')
    drawn = screen.lines([seen(down, down)], "12:00:00")
    assert any(line.startswith("a:8080/0") and line.split()[1] == "down" for line in drawn)
    assert "0 of 1 engines up" in drawn[0]
