"""However a text is cut into messages, the same words are said, and the first ones are not late."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oscine_engine.text.spoken import SpokenStream, spoken
from tests.engine.text.test_cases import CHINESE, ENGLISH, FOLDER
from tests.engine.text.test_incremental import PIECES

CASES = [written for written, _ in ENGLISH + CHINESE]
SIGNS = """= + - * / ^ ~ < > | # ` $ % & @ ( ) [ ] { } \\ _ ' " × ÷ ± ≈ ≤ √ → ° ² ₂ µ π ½ ① ， 。 、 ： ； ~ ``` ~~~
]( ](x.y)
<think> </think> <tool_call> <!-- --> [^1] [1] \\( \\frac{1}{2} \\n &amp; &lt http://a.b/c?d=1 ** ![ (555) 123-4567
ft. = 6 RMB USD Mon. May 1/2 cup 万 年级 度 1,23 1,234 12:3 13800138000 km 3× 10⁸ www. .com""".split()
texts = st.lists(
    st.sampled_from(CASES) | st.sampled_from([*PIECES, *SIGNS, "- [ ] ", " - ", " 4 ", "\n"]), max_size=6
).map("".join)


def cut(text: str, places: list[int]) -> list[str]:
    edges = sorted({place % (len(text) + 1) for place in places} | {0, len(text)})
    return [text[a:b] for a, b in pairwise(edges)]


def in_messages(messages: list[str]) -> str:
    stream = SpokenStream()
    return "".join(map(stream.push, messages)) + stream.finish()


@given(text=texts, places=st.lists(st.integers(0, 300), max_size=12))
@settings(max_examples=400, deadline=None)
def test_any_cut_into_messages_says_the_same(text: str, places: list[int]) -> None:
    assert in_messages(cut(text, places)) == spoken(text)


@given(text=texts)
@settings(max_examples=200, deadline=None)
def test_single_characters_say_the_same(text: str) -> None:
    assert in_messages(list(text)) == spoken(text)


@pytest.mark.parametrize("text", CASES)
def test_every_case_says_the_same_character_by_character(text: str) -> None:
    assert in_messages(list(text)) == spoken(text)


@pytest.mark.parametrize("name", ["answer_en", "answer_zh"])
def test_an_answer_of_a_language_model_is_said_as_a_reader_would(name: str) -> None:
    written = (FOLDER / f"{name}.md").read_text(encoding="utf-8")
    said = (FOLDER / f"{name}.txt").read_text(encoding="utf-8")
    for size in (1, 7, len(written)):
        messages = [written[at : at + size] for at in range(0, len(written), size)]
        assert "".join(in_messages(messages).split()) == "".join(said.split())


ODD = {
    "target": "a](" + "(a" * 60 + " x",
    "sources": "a[1" + " ," * 31 + "x",
    "angles": "<" * 2000,
    "tag": "<a " + "b=c " * 60 + "<",
    "attribute": "<break " + "a='" * 60,
    "brackets": "[" * 2000 + "](" * 400,
    "dollars": "$" * 2000,
    "list": "1 " * 1500,
    "sum": "1+" * 500 + "1 - " * 500,
    "escapes": "\\fr&am`~" * 300,
    "address": "http://" + "a." * 800 + "?c=" + "d&" * 500,
    "years": "1年" * 800,
    "spelled": '<say-as interpret-as="characters">' + "a " * 1000,
    "areas": "(12) " * 400,
    "scripts": "か1α" * 500,
}


@pytest.mark.parametrize("name", ODD)
def test_an_odd_text_comes_to_an_end(name: str) -> None:
    spoken(ODD[name])
    assert in_messages(list(ODD[name][:200])) == spoken(ODD[name][:200])


@given(text=st.text(max_size=40), places=st.lists(st.integers(0, 40), max_size=6))
@settings(max_examples=200, deadline=None)
def test_no_text_whatever_fails(text: str, places: list[int]) -> None:
    assert in_messages(cut(text, places)) == spoken(text)


@pytest.mark.parametrize(
    "sign", "\u034f\u115f\u1160\u17b4\u180b\u180f\u3164\uffa0\ufe0f\u00ad\u2060\U000e0100\U000e0041"
)
def test_what_shows_nothing_parts_no_word(sign: str) -> None:
    assert spoken(f"to{sign}gether") == "together"


def test_a_face_made_of_shapes_is_not_said() -> None:
    assert spoken("Oh no (╯°□°)╯︵ ┻━┻ it fell") == "Oh no, it fell"
    assert spoken("It is 20° ■ or 5°") == "It is twenty degrees or five degrees"
