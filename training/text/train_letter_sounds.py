"""Train the letter-to-sound model from the packed dictionary: `python -m training.text.train_letter_sounds`.

1. Align letters with phones: each letter says zero to two phones; expectation maximisation over all alignments.
2. Count n-grams of the resulting (letter, phones) pairs; absolute discounting, interpolated.
3. Prune n-grams that change little, by relative entropy (Stolcke, 1998), until the file is small enough.
Every twentieth word (by hash) is held out, and the shipped model has never seen it.
"""

import argparse
import json
import lzma
import math
import zlib
from collections import Counter, defaultdict
from pathlib import Path

from oscine_engine.text import letter_sounds, lexicon
from oscine_engine.text.letter_sounds import END, FIRST_PAIR, START, Model, backoff_code, decode, log_code
from oscine_engine.text.lexicon import Phones
from training.ctc import edits

Chunk = Phones
Table = dict[str, dict[Chunk, float]]
_MOST_PHONES = 2
_DISCOUNT = 0.75


def is_held_out(word: str) -> bool:
    return zlib.crc32(word.encode()) % 20 == 0


def spans(word: str, phones: Phones, at: int, said: int) -> list[int]:
    """How many phones letter `at` may say when `said` have been said, so that the rest still fits."""
    left = len(word) - at - 1
    remaining = len(phones) - said
    return [n for n in range(min(_MOST_PHONES, remaining) + 1) if remaining - n <= _MOST_PHONES * left]


def expect(word: str, phones: Phones, table: Table, counts: defaultdict[str, Counter[Chunk]]) -> None:
    """Add the expected use of each (letter, chunk) in this word to `counts` (forward-backward)."""
    columns = len(phones) + 1
    forward = [[0.0] * columns for _ in range(len(word) + 1)]
    forward[0][0] = 1.0
    for at, letter in enumerate(word):
        for said, mass in enumerate(forward[at]):
            if mass:
                for n in spans(word, phones, at, said):
                    forward[at + 1][said + n] += mass * table[letter].get(phones[said : said + n], 0.0)
    total = forward[-1][-1]
    if not total:
        return
    backward = [[0.0] * columns for _ in range(len(word) + 1)]
    backward[-1][-1] = 1.0
    for at in range(len(word) - 1, -1, -1):
        letter = word[at]
        for said in range(columns):
            if not forward[at][said]:
                continue
            for n in spans(word, phones, at, said):
                chunk = phones[said : said + n]
                share = table[letter].get(chunk, 0.0) * backward[at + 1][said + n]
                backward[at][said] += share
                counts[letter][chunk] += forward[at][said] * share / total


def align(word: str, phones: Phones, table: Table) -> list[tuple[str, Chunk]] | None:
    """Most probable split of the phones over the letters, or None when the table allows none."""
    best: list[dict[int, tuple[float, list[tuple[str, Chunk]]]]] = [{0: (0.0, [])}]
    for at, letter in enumerate(word):
        column: dict[int, tuple[float, list[tuple[str, Chunk]]]] = {}
        for said, (score, path) in best[-1].items():
            for n in spans(word, phones, at, said):
                chunk = phones[said : said + n]
                probability = table[letter].get(chunk, 0.0)
                if probability:
                    total = score + math.log(probability)
                    if said + n not in column or total > column[said + n][0]:
                        column[said + n] = (total, [*path, (letter, chunk)])
        best.append(column)
    found = best[-1].get(len(phones))
    return None if found is None else found[1]


def learn_table(words: list[tuple[str, Phones]], rounds: int) -> Table:
    """p(chunk | letter) by expectation maximisation from a start that prefers one phone a letter."""
    start = {0: 0.3, 1: 1.0, 2: 0.05}
    counts: defaultdict[str, Counter[Chunk]] = defaultdict(Counter)
    for word, phones in words:
        for at, letter in enumerate(word):
            for said in range(len(phones) + 1):
                near = math.exp(-abs(said - at * len(phones) / len(word)))
                for n in range(min(_MOST_PHONES, len(phones) - said) + 1):
                    counts[letter][phones[said : said + n]] += near * start[n]
    table = normalised(counts, 0)
    for _ in range(rounds):
        counts = defaultdict(Counter)
        for word, phones in words:
            expect(word, phones, table, counts)
        table = normalised(counts, 0.5)
    return table


def normalised(counts: dict[str, Counter[Chunk]], least: float) -> Table:
    table: Table = {}
    for letter, chunks in counts.items():
        kept = {chunk: count for chunk, count in chunks.items() if count > least}
        total = sum(kept.values())
        table[letter] = {chunk: count / total for chunk, count in kept.items()}
    return table


def estimate(sequences: list[str], order: int) -> dict[str, float]:
    """Interpolated absolute-discount probability of every seen n-gram (key = context + pair)."""
    counts: list[Counter[str]] = [Counter() for _ in range(order + 1)]
    for sequence in sequences:
        for end in range(1, len(sequence)):
            for length in range(1, min(order, end + 1) + 1):
                counts[length][sequence[end + 1 - length : end + 1]] += 1
    probability: dict[str, float] = {}
    size = len(counts[1])
    unigrams = sum(counts[1].values())
    for pair, count in counts[1].items():
        probability[pair] = (count - _DISCOUNT) / unigrams + _DISCOUNT * size / unigrams / size
    for length in range(2, order + 1):
        totals: Counter[str] = Counter()
        kinds: Counter[str] = Counter()
        for gram, count in counts[length].items():
            totals[gram[:-1]] += count
            kinds[gram[:-1]] += 1
        for gram, count in counts[length].items():
            context = gram[:-1]
            lower = probability[gram[1:]]
            probability[gram] = (count - _DISCOUNT + _DISCOUNT * kinds[context] * lower) / totals[context]
    return probability


def prune(probability: dict[str, float], counts: Counter[str], threshold: float) -> dict[str, float]:
    """Keep n-grams whose loss would cost more than `threshold` nats over the corpus, and all their prefixes."""
    kept = {gram for gram in probability if len(gram) == 1}
    for gram, p in probability.items():
        if len(gram) > 1 and counts[gram] * abs(math.log(p / probability[gram[1:]])) > threshold:
            kept.update(gram[:length] for length in range(1, len(gram) + 1) if gram[:length] in probability)
    return {gram: probability[gram] for gram in kept}


def backoffs(probability: dict[str, float]) -> dict[str, float]:
    """Log of the weight that makes each context's distribution sum to one."""
    seen: defaultdict[str, float] = defaultdict(float)
    lower: defaultdict[str, float] = defaultdict(float)

    def backed_off(context: str, pair: str) -> float:
        weight = 1.0
        while context + pair not in probability:
            weight *= math.exp(logs.get(context, 0.0))
            context = context[1:]
        return weight * probability[context + pair]

    logs: dict[str, float] = {}
    for length in range(2, max(map(len, probability)) + 1):
        grams = [gram for gram in probability if len(gram) == length]
        for gram in grams:
            seen[gram[:-1]] += probability[gram]
            lower[gram[:-1]] += backed_off(gram[1:-1], gram[-1])
        for context in {gram[:-1] for gram in grams}:
            logs[context] = math.log(max(1e-6, 1 - seen[context]) / max(1e-6, 1 - lower[context]))
    return logs


def pack(order: int, table: list[str], probability: dict[str, float]) -> bytes:
    """The format that `letter_sounds.unpack` reads."""
    logs = backoffs(probability)
    keys = sorted({*probability, *logs})
    sections = (
        "\n".join([str(order), *table]).encode("ascii"),
        "\n".join(keys).encode("utf-8"),
        bytes(log_code(math.log(probability[key])) if key in probability else 255 for key in keys),
        bytes(backoff_code(logs[key]) if key in logs else 128 for key in keys),
    )
    return lzma.compress(b"\0\0".join(sections), preset=9 | lzma.PRESET_EXTREME)


def evaluate(model: Model, words: list[tuple[str, Phones]]) -> dict[str, float]:
    """Held-out phone error rate and word accuracy, with stress digits and without."""
    wrong = plain_wrong = right = plain_right = length = 0
    for word, phones in words:
        said = decode(model, word)
        bare, plain = tuple(p.rstrip("012") for p in said), tuple(p.rstrip("012") for p in phones)
        wrong += edits(said, phones)
        plain_wrong += edits(bare, plain)
        right += said == phones
        plain_right += bare == plain
        length += len(phones)
    return {
        "words": len(words),
        "phone_error": round(wrong / length, 4),
        "word_accuracy": round(right / len(words), 4),
        "phone_error_without_stress": round(plain_wrong / length, 4),
        "word_accuracy_without_stress": round(plain_right / len(words), 4),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--order", type=int, default=6)
    parser.add_argument("--threshold", type=float, default=2.0, help="n-grams that save fewer nats are dropped")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--limit", type=int, default=400_000, help="largest file in bytes")
    parser.add_argument("--evaluate", type=int, default=2000, help="held-out words to test on")
    parser.add_argument("--output", type=Path, default=Path(letter_sounds.__file__).parent / "data/letter_sounds.xz")
    arguments = parser.parse_args()

    known = lexicon.shipped()
    words = [(word, known.get(word) or ()) for word in known.words() if word.isalpha() and len(word) > 1]
    training = [pair for pair in words if not is_held_out(pair[0])]
    held_out = [pair for pair in words if is_held_out(pair[0])]
    table = learn_table(training[::5], arguments.rounds)
    aligned = [found for word, phones in training if (found := align(word, phones, table))]
    uses = Counter(pair for sequence in aligned for pair in sequence)
    pairs = [pair for pair, count in uses.most_common() if count >= 4]
    code = {pair: chr(FIRST_PAIR + n) for n, pair in enumerate(pairs)}
    sequences = [
        START + "".join(code[pair] for pair in sequence) + END
        for sequence in aligned
        if all(p in code for p in sequence)
    ]
    print(
        f"{len(aligned)} of {len(training)} words aligned, {len(pairs)} pairs, {len(sequences)} sequences", flush=True
    )

    probability = estimate(sequences, arguments.order)
    counts: Counter[str] = Counter()
    for sequence in sequences:
        for end in range(1, len(sequence)):
            for size in range(1, min(arguments.order, end + 1) + 1):
                counts[sequence[end + 1 - size : end + 1]] += 1
    names = [letter + " ".join(chunk) for letter, chunk in pairs]
    threshold = arguments.threshold
    while True:
        kept = prune(probability, counts, threshold)
        packed = pack(arguments.order, names, kept)
        print(f"threshold {threshold:.2f}: {len(kept)} n-grams, {len(packed)} bytes", flush=True)
        if len(packed) <= arguments.limit:
            break
        threshold *= 1.25
    arguments.output.write_bytes(packed)
    print(json.dumps(evaluate(letter_sounds.unpack(packed), held_out[: arguments.evaluate])))


if __name__ == "__main__":
    main()
