import pytest

from oscine_service.telephony.rtp.reception import Reception


def _take(reception: Reception, sequences: list[int], first: int = 0) -> None:
    for number, sequence in enumerate(sequences):
        reception.take(1, sequence & 0xFFFF, 160 * (sequence - first), 160, 0.02 * (sequence - first) + 0 * number)


def test_nothing_that_came_is_nothing_to_report() -> None:
    assert Reception(8000).block(1.0) is None


def test_packets_in_order_lose_nothing_over_the_end_of_the_numbers() -> None:
    reception = Reception(8000)
    _take(reception, list(range(65500, 65600)), 65500)
    block = reception.block(3.0)
    assert block is not None
    assert (block.source, block.fraction, block.lost) == (1, 0, 0)
    assert block.highest == 65599
    assert reception.packets == 100 and reception.bytes == 16000
    assert reception.jitter_s == pytest.approx(0.0, abs=1e-6)


def test_a_quarter_lost_is_told_once_as_a_fraction_and_for_ever_in_all() -> None:
    reception = Reception(8000)
    _take(reception, [n for n in range(400) if n % 4 != 1])
    block = reception.block(8.0)
    assert block is not None and block.fraction == 64 and block.lost == 100
    _take(reception, list(range(400, 500)))
    block = reception.block(10.0)
    assert block is not None and block.fraction == 0 and block.lost == 100


def test_what_comes_late_is_not_lost_and_what_comes_twice_makes_up() -> None:
    reception = Reception(8000)
    _take(reception, [0, 1, 3, 2, 4, 4])
    block = reception.block(1.0)
    assert block is not None and block.lost == -1 and block.fraction == 0


def test_a_stray_number_is_passed_over_and_two_in_a_row_begin_anew() -> None:
    reception = Reception(8000)
    _take(reception, [10, 11, 40000, 12])
    assert reception.lost == 0
    _take(reception, [30000, 30001, 30002])
    assert reception.expected == 2 and reception.lost == 0


def test_another_source_is_counted_from_its_own_beginning() -> None:
    reception = Reception(8000)
    _take(reception, [0, 1, 2])
    reception.take(2, 500, 0, 160, 1.0)
    block = reception.block(1.0)
    assert block is not None and block.source == 2 and block.lost == 0 and block.highest == 500


def test_jitter_is_the_mean_of_what_packets_are_off() -> None:
    reception = Reception(8000)
    for number in range(2000):
        # One early and one late in turn: 4 ms between any two.
        reception.take(1, number, 160 * number, 160, 0.02 * number + (0.004 if number % 2 else 0.0))
    assert reception.jitter_s == pytest.approx(0.004, rel=0.01)


def test_timestamps_that_begin_again_are_no_jitter() -> None:
    reception = Reception(8000)
    for number in range(100):
        reception.take(1, number, (0xFFFFFFFF - 800 + 160 * number) & 0xFFFFFFFF, 160, 0.02 * number)
    assert reception.jitter_s == pytest.approx(0.0, abs=1e-6)


def test_a_report_of_theirs_is_told_with_how_long_ago_it_came() -> None:
    reception = Reception(8000)
    reception.take(1, 0, 0, 160, 0.0)
    reception.reported(0xAABBCCDD, 1.0)
    block = reception.block(1.5)
    assert block is not None and (block.last, block.since) == (0xAABBCCDD, 32768)
