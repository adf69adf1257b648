"""Text ids of every clip of the corpus, and what they say about the interleave ratio and the length factors.

`python -m training.text.corpus_ids MANIFEST TOKENIZER_DIR OUT.jsonl [--report REPORT.json]`

Each output line: id, ids (list of int), seconds, speech (25 tokens a second, rounded). A clip satisfies the training
condition of the N : M interleaving when speech / text > M / N; the factors bound speech ids per text id.
"""

import argparse
import json
import re
from collections.abc import Iterable
from pathlib import Path

from oscine_engine.text import lexicon
from oscine_engine.text.english import plain_letters
from oscine_engine.text.front_end import FrontEnd
from oscine_engine.text.tokenizer import Tokenizer

TOKENS_PER_SECOND = 25
SPEECH_BLOCK = 15


def clip_line(front_end: FrontEnd, clip: dict[str, object]) -> dict[str, object]:
    """One output line for one line of the manifest."""
    seconds = float(str(clip["seconds"]))
    return {
        "id": clip["id"],
        "ids": front_end.whole(str(clip["text"])),
        "seconds": seconds,
        "speech": round(seconds * TOKENS_PER_SECOND),
    }


def percentiles(values: Iterable[float]) -> dict[str, float]:
    """Selected percentiles of a sample, by name."""
    ordered = sorted(values)
    at = {"min": 0.0, "p0.5": 0.005, "p1": 0.01, "p50": 0.5, "p99": 0.99, "p99.5": 0.995, "max": 1.0}
    return {name: round(ordered[round(share * (len(ordered) - 1))], 3) for name, share in at.items()}


def unknown_words(clips: Iterable[dict[str, object]]) -> list[str]:
    """English words that the dictionary lacks, most of which inflection rules still settle."""
    known = lexicon.shipped()
    found = {
        plain_letters(word).strip("'").lower()
        for clip in clips
        if clip["lang"] == "en"
        for word in re.findall(r"[A-Za-z\u00c0-\u024f']+", str(clip["text"]))
    }
    return sorted(word for word in found if word and word not in known)


def statistics(lines: list[dict[str, object]], langs: list[str]) -> dict[str, object]:
    """Distributions of ids per second and speech per text id, and for each block size the share of clips that fit."""
    counts = [(len(line["ids"]), int(str(line["speech"])), float(str(line["seconds"]))) for line in lines]  # type: ignore[arg-type]
    ratios = [speech / text for text, speech, _ in counts]
    report: dict[str, object] = {
        "clips": len(lines),
        "speech_per_text_id": percentiles(ratios),
        "text_ids": percentiles(text for text, _, _ in counts),
        "fits": {
            f"{block}:{SPEECH_BLOCK}": round(sum(ratio > SPEECH_BLOCK / block for ratio in ratios) / len(ratios), 5)
            for block in range(8, 20)
        },
    }
    for lang in sorted(set(langs)):
        chosen = [count for count, of in zip(counts, langs, strict=True) if of == lang]
        report[lang] = {
            "ids_per_second": percentiles(text / seconds for text, _, seconds in chosen),
            "speech_per_text_id": percentiles(speech / text for text, speech, _ in chosen),
        }
    return report


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("manifest", type=Path)
    parser.add_argument("tokenizer", type=Path)
    parser.add_argument("output", type=Path)
    parser.add_argument("--report", type=Path)
    arguments = parser.parse_args()
    front_end = FrontEnd("phones", Tokenizer.load(arguments.tokenizer))
    clips = [json.loads(line) for line in arguments.manifest.read_text(encoding="utf-8").splitlines()]
    lines = [clip_line(front_end, clip) for clip in clips]
    arguments.output.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    unknown = unknown_words(clips)
    report = statistics(lines, [clip["lang"] for clip in clips]) | {"unknown_words": len(unknown), "unknown": unknown}
    if arguments.report:
        arguments.report.write_text(json.dumps(report, ensure_ascii=False, indent=1), encoding="utf-8")
    print(json.dumps({key: value for key, value in report.items() if key != "unknown"}, indent=1))


if __name__ == "__main__":
    main()
