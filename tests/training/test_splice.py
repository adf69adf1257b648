"""Spliced utterances: text and speech come from the same words, and edges from edges."""

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from training.data import Corpus
from training.splice import Splicer, Word, read_words

WORDS = 4


@pytest.fixture
def spelled(work: Path) -> tuple[Corpus, np.ndarray, list[list[Word]]]:
    """A corpus where word k of clip c is text id 10 c + k and two or three speech ids 10 c + k."""
    data = work / "data"
    lengths = [2 + (clip + word) % 2 for clip in range(6) for word in range(WORDS)]
    ids = [10 * clip + word for clip in range(6) for word in range(WORDS)]
    ends = np.cumsum(lengths)
    starts = np.concatenate([[0], ends[WORDS - 1 :: WORDS]])
    np.save(data / "starts.npy", starts)
    np.save(data / "text.npy", np.asarray(ids, np.int16))
    np.save(data / "text_starts.npy", WORDS * np.arange(7))
    words: list[list[Word]] = []
    for clip in range(6):
        first = int(starts[clip])
        mine = [0, *(int(end) - first for end in ends[WORDS * clip : WORDS * (clip + 1)])]
        words.append([(word, word + 1, mine[word], mine[word + 1]) for word in range(WORDS)])
    return Corpus(data, "cpu"), np.repeat(np.asarray(ids, np.int16), lengths), words


def test_text_and_speech_stay_paired_and_edges_stay_edges(
    spelled: tuple[Corpus, np.ndarray, list[list[Word]]],
) -> None:
    corpus, tokens, words = spelled
    splicer, rng = Splicer(corpus, tokens, words, np.array([0, 2, 4])), np.random.default_rng(0)
    drawn = [splicer.draw(rng) for _ in range(300)]
    for text, speech in drawn:
        clips, places = np.divmod(text, 10)
        counts = 2 + (clips + places) % 2
        assert speech == np.repeat(text, counts).tolist()
        assert set(clips.tolist()) <= {0, 2, 4}
        assert places[0] == 0 and places[-1] == WORDS - 1
        # A clip's last word says that the sentence ends: it follows on its own neighbours at the end, and nowhere else.
        assert (places[:-1] < WORDS - 1).all()
    assert len({tuple(text) for text, _ in drawn}) > 150
    assert any(len(set((np.array(text) // 10).tolist())) == 3 for text, _ in drawn)


def test_words_are_read_by_clip_and_a_corpus_without_words_is_refused(
    spelled: tuple[Corpus, np.ndarray, list[list[Word]]], tmp_path: Path
) -> None:
    corpus, tokens, words = spelled
    path = tmp_path / "align.json.gz"
    with gzip.open(path, "wt", encoding="utf-8") as out:
        json.dump({"c3": words[3], "c1": words[1]}, out)
    assert read_words(path, corpus) == [[], words[1], [], words[3], [], []]
    with pytest.raises(ValueError, match="two aligned words"):
        Splicer(corpus, tokens, [[(0, 1, 0, 4)]] * 6, np.arange(4))
