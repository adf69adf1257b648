"""Words are found where they were put."""

import numpy as np

from oscine_engine.text.marks import added_tokens
from training.align import SPACE, cut, places, words

COMMA = SPACE + 1


def ids(*names: str) -> list[int]:
    return [added_tokens().index(f"[{name}]") for name in names]


def test_the_best_path_keeps_the_order_of_the_text_against_the_likelier_label() -> None:
    said = np.array([0, 5, 5, 0, 5, 0, 7, 7, 0])
    log_probs = np.full((len(said), 8), -5.0, np.float32)
    log_probs[np.arange(len(said)), said] = -0.1
    log_probs[3, 6] = 0.0
    assert places(log_probs, [5, 5, 7]) == [(1, 2), (4, 4), (6, 7)]
    assert places(log_probs[1:4], [5, 5, 7]) == []


def test_a_word_carries_what_follows_it_and_a_syllable_is_a_word() -> None:
    english = [*ids("HH", "AY1"), COMMA, SPACE, *ids("D", "EH1", "N"), SPACE, *ids("AY1"), COMMA]
    assert words(english) == [(0, 4), (4, 8), (8, 10)]
    mandarin = [COMMA, *ids("zh", "è", "à", "x", "ěn"), COMMA]
    assert words(mandarin) == [(0, 3), (3, 4), (4, 7)]
    assert words([COMMA]) == []


def test_a_pause_stays_with_the_word_before_it() -> None:
    text = [*ids("HH", "AY1"), COMMA, SPACE, *ids("D", "EH1"), SPACE, *ids("AY1"), COMMA]
    where = [(2, 2), (4, 5), (15, 15), (17, 17), (20, 21)]
    assert cut(text, where, 30) == [(0, 4, 0, 14), (4, 7, 14, 19), (7, 9, 19, 30)]
