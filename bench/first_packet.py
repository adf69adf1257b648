"""How soon does a warm server sound? python -m bench first_packet [--streams N] [--json]

Starts `oscine serve` in a process of its own and calls it over loopback gRPC. Words go out one a message at the pace of
a language model; each client of a row makes its calls one after the other. For every number of streams from 1 to N
each client first makes calls that are not counted. Lines are taken in turn, seeds count up from 0, nothing is chosen.

Times count from the sending of the last word the model needs to start, found by running the model's own front end and
planner over the same messages: in interleaved text the word with which the ids that can no longer change fill the
blocks of the first chunk, otherwise the word (or the end of input right behind it) that completes the sentence.
Percentiles are nearest-rank.

Keys of the printed object:

* `benchmark`, `model` ("embedded" or the directory's name), `voice`, `mode`, `encoding`, `word_ms`, `repeat`;
* `host`: `cpu`, `cores` (usable ones), `load` (one-minute load average before the start: is the machine quiet?),
  `python`, `torch`, `commit` (with "+" where files differ from it);
* `rows`, one for each number of `streams`: `calls`, `failed` (their messages are in `errors`), `audio_s` in all;
  `first_packet_ms` `p50` `p95` `p99`: until the first audio arrived;
  `onset_ms` `p50` `p95`: until a player that plays at once plays the first sample within 40 dB of the loudest;
  `rtf` `p50` `p95`: from the same word until the last audio arrived, over the seconds of audio, of each stream;
  `underruns` `count` `ms` `calls`: times that this player, which collects nothing beforehand, ran dry before the end,
  how long in all, and in how many calls;
  `needed_word` `p50`: which word it was, from 1.

The exit status is 1 if a call failed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import grpc

from bench.client import RATE, Call, connect, server, speak
from bench.figures import host, ranks
from bench.pacing import pieces
from bench.player import play
from bench.served import ServerFailed
from bench.start import Start
from oscine_engine.errors import OscineError
from oscine_engine.events import Mode
from oscine_engine.text.front_end import language
from oscine_proto.oscine.v1 import speech_pb2 as pb
from oscine_proto.oscine.v1.speech_pb2_grpc import SpeechServiceStub

if TYPE_CHECKING:
    from oscine_proto.oscine.v1.speech_pb2_grpc import SpeechServiceAsyncStub

SENTENCES = Path(__file__).parent / "sentences" / "en.txt"
MODES = {Mode.AUTO: pb.MODE_AUTO, Mode.SENTENCE: pb.MODE_SENTENCE, Mode.INTERLEAVED: pb.MODE_INTERLEAVED}
ENCODINGS = {"opus": pb.ENCODING_OPUS, "pcm16": pb.ENCODING_PCM16}
WARM_UPS = 2


@dataclass(frozen=True, slots=True)
class Measured:
    """One call. Seconds from the sending of the needed word, of which `word` is the number from 1."""

    word: int
    first_packet_s: float
    onset_s: float | None
    ended_s: float
    audio_s: float
    gaps: tuple[float, ...]


def measure(call: Call, needed: int) -> Measured | None:
    """None for a call without audio."""
    if not call.packets:
        return None
    began, heard = call.sent[needed], play(call.packets, RATE)
    return Measured(
        word=needed + 1,
        first_packet_s=call.packets[0].arrived - began,
        onset_s=None if heard.onset is None else heard.onset - began,
        ended_s=call.packets[-1].arrived - began,
        audio_s=sum(packet.samples.size for packet in call.packets) / RATE,
        gaps=heard.gaps,
    )


def row(streams: int, results: Sequence[Measured | str]) -> dict[str, Any]:
    """Figures of one number of streams; see the top of this file."""
    good = [each for each in results if isinstance(each, Measured)]
    errors = [each for each in results if isinstance(each, str)]

    return {
        "streams": streams,
        "calls": len(results),
        "failed": len(errors),
        "errors": sorted(set(errors)),
        "audio_s": round(sum(each.audio_s for each in good), 2),
        "first_packet_ms": ranks([each.first_packet_s for each in good], 50, 95, 99, scale=1000),
        "onset_ms": ranks([each.onset_s for each in good if each.onset_s is not None], 50, 95, scale=1000),
        "rtf": ranks([each.ended_s / each.audio_s for each in good], 50, 95, digits=3),
        "underruns": {
            "count": sum(len(each.gaps) for each in good),
            "ms": round(1000 * sum(sum(each.gaps) for each in good), 1),
            "calls": sum(bool(each.gaps) for each in good),
        },
        "needed_word": ranks([each.word for each in good], 50),
    }


async def client(
    stub: SpeechServiceAsyncStub, start: Start, lines: Sequence[str], options: argparse.Namespace, number: int
) -> list[Measured | str]:
    """One listener's calls, one after the other; the warm-ups are left out of what it returns."""
    mode = Mode(options.mode)
    results: list[Measured | str] = []
    for turn in range(-WARM_UPS, options.repeat):
        seed = turn % options.repeat + number * options.repeat
        text = lines[seed % len(lines)]
        parts = pieces(text, language(text))
        config = pb.SynthesizeConfig(
            voice=start.voice, mode=MODES[mode], seed=seed, audio=pb.AudioFormat(encoding=ENCODINGS[options.encoding])
        )
        try:
            call = await speak(stub, config, parts, options.word_ms / 1000)
        except grpc.aio.AioRpcError as error:
            results.append(f"{error.code().name}: {error.details()}")
            continue
        if turn >= 0:
            results.append(measure(call, start.needs(parts, mode)) or f"no audio for {text!r}")
    return results


async def rows(address: str, start: Start, lines: Sequence[str], options: argparse.Namespace) -> list[dict[str, Any]]:
    made = []
    async with connect(address) as channel:
        stub = SpeechServiceStub(channel)
        for streams in range(1, options.streams + 1):
            runs = await asyncio.gather(*(client(stub, start, lines, options, number) for number in range(streams)))
            made.append(row(streams, [each for run in runs for each in run]))
            if not options.json:
                print(shown(made[-1]), flush=True)
    return made


HEADER = "streams  calls  first packet ms p50/p95/p99  onset ms p50/p95   rtf  underruns (ms)  failed"


def shown(row: dict[str, Any]) -> str:
    """One line for people, under HEADER."""

    def shown_ranks(name: str) -> str:
        return " / ".join("-" if value is None else f"{value:.0f}" for value in row[name].values())

    rtf = row["rtf"]["p50"]
    dry = f"{row['underruns']['count']} ({row['underruns']['ms']:.0f})"
    return (
        f"{row['streams']:7}  {row['calls']:5}  {shown_ranks('first_packet_ms'):>27}  {shown_ranks('onset_ms'):>16}  "
        f"{'-' if rtf is None else f'{rtf:.2f}':>4}  {dry:>14}  {row['failed']:6}"
    )


def main() -> None:
    """Command line entry point."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    source = parser.add_mutually_exclusive_group()
    source.add_argument("--text", help="what every call says")
    source.add_argument("--lines", type=Path, default=SENTENCES, metavar="FILE", help="texts, one a line, UTF-8")
    parser.add_argument("--streams", type=int, default=1, help="measure 1 to this many at once (default %(default)s)")
    parser.add_argument("--repeat", type=int, default=20, help="counted calls of each stream (default %(default)s)")
    parser.add_argument("--voice", help="default: the model's first")
    parser.add_argument("--mode", choices=[str(mode) for mode in Mode], default="auto")
    parser.add_argument("--encoding", choices=tuple(ENCODINGS), default="opus")
    parser.add_argument("--word-ms", type=float, default=40.0, help="between words (default %(default)s)")
    parser.add_argument("--model", type=Path, help="model directory (default: the embedded voice)")
    parser.add_argument("--json", action="store_true", help="print one JSON object and nothing else")
    options = parser.parse_args()
    if options.streams < 1 or options.repeat < 1 or options.word_ms < 0:
        parser.error("--streams and --repeat count from 1, --word-ms from 0")
    machine = host()
    try:
        texts = [options.text] if options.text else options.lines.read_text(encoding="utf-8").splitlines()
        lines = [text.strip() for text in texts if text.strip()]
        if not lines:
            parser.error("there is nothing to speak: give a text")
        start = Start.of(options.model, options.voice)
        model = "embedded" if options.model is None else options.model.resolve().name
        if not options.json:
            print(f"{model}, {start.voice}, {options.mode}, {options.encoding}, {options.word_ms:g} ms a word")
            print(", ".join(f"{name} {value}" for name, value in machine.items()))
            print(HEADER, flush=True)
        with server(options.model, max(8, options.streams)) as address:
            made = asyncio.run(rows(address, start, lines, options))
    except (OSError, UnicodeDecodeError, OscineError, ServerFailed) as error:
        raise SystemExit(f"bench.first_packet: {error}") from error
    result = {
        "benchmark": "first_packet",
        "model": model,
        "voice": start.voice,
        "mode": options.mode,
        "encoding": options.encoding,
        "word_ms": options.word_ms,
        "repeat": options.repeat,
        "host": machine,
        "rows": made,
    }
    if options.json:
        print(json.dumps(result, ensure_ascii=False))
    for message in sorted({message for each in made for message in each["errors"]}):
        print(f"failed: {message}", file=sys.stderr)
    sys.exit(1 if any(each["failed"] for each in made) else 0)


if __name__ == "__main__":
    main()
