"""Bytes of a text to characters, cut anywhere, and where they go wrong."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oscine_engine.errors import InvalidInput
from oscine_service.cli.texts import Decoder, Unreadable, pieces_of


def decode(pieces: list[bytes]) -> tuple[str, Unreadable | None]:
    decoder, text = Decoder("it"), ""
    for piece in [*pieces, b""]:
        more, fault = decoder.push(piece, last=not piece)
        text += more
        if fault is not None:
            return text, fault
    return text, None


def cut(data: bytes, cuts: list[int]) -> list[bytes]:
    ends = sorted({at % (len(data) + 1) for at in cuts} | {0, len(data)})
    return [data[start:end] for start, end in pairwise(ends)]


TEXT = st.text(st.characters(codec="utf-8"))
CUTS = st.lists(st.integers(0, 1000), max_size=8)


@given(good=TEXT, cuts=CUTS)
def test_text_comes_through_however_it_was_cut(good: str, cuts: list[int]) -> None:
    assert decode(cut(good.encode(), cuts)) == (good, None)


@given(
    good=TEXT,
    bad=st.sampled_from([b"\xff", b"\xe9 au", b"\xed\xa0\x80", b"\xf0\x9f\x98", b"\x80"]),
    more=TEXT,
    cuts=CUTS,
)
def test_what_is_good_comes_first_and_the_fault_is_where_it_is(
    good: str, bad: bytes, more: str, cuts: list[int]
) -> None:
    data = good.encode() + bad + more.encode()
    text, fault = decode(cut(data, cuts))
    assert text == good
    assert fault is not None
    assert f"at byte {len(good.encode())} (0x{bad[0]:02x})" in str(fault)


def test_an_argument_that_is_no_text_is_refused_at_once() -> None:
    with pytest.raises(InvalidInput, match=r"the text to say is not valid UTF-8 at byte 3 \(0xe9\)"):
        pieces_of(b"caf\xe9".decode("utf-8", "surrogateescape"))
