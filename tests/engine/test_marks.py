"""Which sentence a mark waits for."""

from oscine_engine.marks import Marks


def test_a_mark_waits_for_the_sentence_it_stands_in() -> None:
    marks = Marks()
    marks.put("before", 0)
    assert list(marks.take(0)) == ["before"] and not marks.standing
    marks.put("in", None)
    assert marks.standing and list(marks.take(5)) == []
    marks.end(2)
    assert not marks.standing
    assert list(marks.take(1)) == [] and list(marks.take(2)) == ["in"] and list(marks.take(2)) == []


def test_marks_keep_their_order_around_a_flush() -> None:
    marks = Marks()
    marks.put("one", 1)
    marks.flush(1)
    marks.put("behind", 2)
    assert list(marks.take(marks.flushed())) == ["one"]
    assert list(marks.take(2)) == ["behind"]
