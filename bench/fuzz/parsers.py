"""What reads files, texts and messages in a process of its own, each tried without a socket.

A parser draws a case and returns what to do, which must end or raise what `typed` says, and what to show of it.
"""

from __future__ import annotations

import json
import math
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, TypeAlias

from bench.fuzz import draw, protobuf
from bench.fuzz.recordings import recording
from oscine_codecs.errors import CodecError, CodecFailed
from oscine_engine.errors import InternalError, OscineError

Case: TypeAlias = tuple[Callable[[], object], object]
Draw: TypeAlias = Callable[[Random], Case]
SLOW_S = 2.0
"""CPU time that no case may take."""


@dataclass(frozen=True, slots=True)
class Parser:
    """make: everything that is needed once. internal: an InternalError is an answer, too. one_in: of so many cases one
    is tried, where each takes a while."""

    make: Callable[[ExitStack], Draw]
    internal: bool = False
    one_in: int = 1

    def typed(self, error: Exception) -> bool:
        """Whether it is an error that says what is wrong with the input."""
        if isinstance(error, CodecError):
            return not isinstance(error, CodecFailed)
        # The base class is what a fault is told as.
        return isinstance(error, OscineError) and (
            self.internal or (type(error) is not OscineError and not isinstance(error, InternalError))
        )


def _folder(stack: ExitStack) -> Path:
    return Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="oscine-fuzz-")))


def _text(stack: ExitStack) -> Draw:
    return _reading(lambda random: (draw.text(random, 3000), {}))


def _ssml(stack: ExitStack) -> Draw:
    pieces = (
        "<speak>", "</speak>", "<break time='{}'/>", "<break strength='{}'/>", "<sub alias='{}'>", "</sub>", "<p>",
        "</s>", "<prosody rate='{}'>", "</prosody>", "<phoneme alphabet='arpabet' ph='{}'>", "</phoneme>",
        "<phoneme ph='{}' alphabet='pinyin'>", "<say-as interpret-as='{}'>", "</say-as>", "<{}>", "</{}>", "<{}",
        "[{}]", "[h][ǎo]", "[HH][AH0]", "&{};", "&#{};", "<!--{}-->", "<?{}?>", "<!DOCTYPE {}>", "<![CDATA[{}]]>",
        "<strong>", "[breath]", "<|{}|>",
    )  # fmt: skip
    inside = (
        "1s",
        "500ms",
        "1e9s",
        "-1s",
        "strong",
        "50%",
        "+1000%",
        "x-fast",
        "HH AH0",
        "hao3",
        "digits",
        "date",
        "",
        "'>",
    )

    def drawn(random: Random) -> tuple[str, dict[str, Any]]:
        parts: list[str] = []
        for _ in range(random.randrange(30)):
            piece = random.choice(pieces) if draw.chance(random, 0.6) else draw.text(random, 30)
            parts.append(
                piece.replace("{}", random.choice(inside) if draw.chance(random, 0.7) else draw.text(random, 20))
            )
        whole = "".join(parts)
        return (whole * 200)[:20_000] if draw.chance(random, 0.02) else whole, {}

    return _reading(drawn)


def _lexicon(stack: ExitStack) -> Draw:
    from oscine_engine.text.pronunciations import Pronunciations

    def drawn(random: Random) -> tuple[str, dict[str, Any]]:
        count = random.choice((0, 1, 3, 20, 20, 200)) if draw.chance(random, 0.995) else 2500
        words = {
            draw.text(random, 70): draw.text(random, 330 if draw.chance(random, 0.1) else 30) for _ in range(count)
        }
        said = draw.text(random, 300) + "".join(random.choices(list(words), k=min(count, 20)))
        return said, {"pronunciations": lambda: Pronunciations(words)}

    return _reading(drawn)


def _reading(drawn: Callable[[Random], tuple[str, dict[str, Any]]]) -> Draw:
    """Read a text as a session does, cut anywhere."""
    from oscine_engine.events import Mode
    from oscine_engine.front import read_front_end
    from oscine_engine.planner import Begin, End, Planner
    from oscine_engine.session import SLICE

    front_end = read_front_end(None)
    front_end.warm()

    def case(random: Random) -> Case:
        said, made = drawn(random)
        mode, words = random.choice(list(Mode)), draw.chance(random, 0.3)
        language = random.choice((None, None, None, "en", "zh"))
        pieces = [part[at : at + SLICE] for part in draw.split(random, said) for at in range(0, len(part), SLICE)]
        flushing = draw.chance(random, 0.2)

        def act() -> None:
            options = {name: make() for name, make in made.items()}
            planner = Planner(front_end, mode, words=words, language=language, **options)
            steps = []
            for piece in pieces:
                steps += planner.push(piece)
                if flushing:
                    steps += planner.flush()
            steps += planner.flush()
            planner.take_words()
            if sum(isinstance(each, Begin) for each in steps) != sum(isinstance(each, End) for each in steps):
                raise AssertionError("a segment that began did not end")

        return act, (said, str(mode), len(pieces))

    return case


def _recordings(stack: ExitStack) -> Draw:
    from oscine_service.recordings import decode

    def case(random: Random) -> Case:
        data = recording(random, foreign=0.03)
        return lambda: decode(data), data

    return case


def _settings(stack: ExitStack) -> Draw:
    from oscine_service.config.model import SECTIONS, SETTINGS
    from oscine_service.config.sources import resolve

    file = _folder(stack) / "oscine.toml"
    values = ("true", "0", "-1", "8080", "1" * 5000, "1e400", "inf", "nan", '"cpu"', '"cuda:0,cuda:0"', "[]",
              "['a']", "{}", "1979-05-27", '"\\u0000"', '"a=b"', "'x'", "[[1]]", '""', "0x10", "1_000",
              "'cuda:" + "9" * 5000 + "'",
              "'" + "9" * 5000 + "'", "'²'", "'~nobody/x'")  # fmt: skip

    def row(random: Random) -> str:
        name = random.choice(list(SETTINGS)) if draw.chance(random, 0.9) else draw.plain(random, 12)
        value = random.choice(values) if draw.chance(random, 0.9) else json.dumps(draw.plain(random, 30))
        return f"{name} = {value}"

    def case(random: Random) -> Case:
        lines: list[str] = []
        for section in draw.shuffled(random, (*SECTIONS, draw.plain(random, 8)), 3):
            lines.append(f"[{section}]")
            names = [name for name, each in SETTINGS.items() if each.section == section]
            lines += [row(random) for _ in range(random.randrange(3))]
            lines += [f"{random.choice(names)} = {random.choice(values)}"] if names else []
        data = "\n".join(lines).encode(errors="replace")
        if draw.chance(random, 0.3):
            data = draw.damaged(random, data)
        if draw.chance(random, 0.01):
            data = b"a = " + random.choice((b"[", b"{a=")) * 20_000
        environment = {
            SETTINGS[random.choice(list(SETTINGS))].variable: draw.plain(random, 20).replace("\0", "")
            for _ in range(random.randrange(3))
        }

        def act() -> None:
            file.write_bytes(data)
            resolve(file, environment)

        return act, (data, environment)

    return case


def _keys(stack: ExitStack) -> Draw:
    from oscine_service.security import keys

    file = _folder(stack) / "keys.json"
    key = {"name": "a", "sha256": "0" * 64, "owner": "a", "streams": 3, "voices": ["a*"], "grants": ["speak"]}
    other = {"name": "b", "sha256": "1" * 64, "expires": "2027-01-31T00:00:00Z", "created": "2026-01-01"}
    whole = {"keys": [key, {**key, **other}]}

    def case(random: Random) -> Case:
        wanted: Any = whole
        for _ in range(random.randrange(4)):
            wanted = draw.altered(random, wanted)
        data = draw.dumped(random, wanted).encode(errors="surrogatepass")
        data = draw.damaged(random, data) if draw.chance(random, 0.2) else data

        def act() -> None:
            file.write_bytes(data)
            for each in keys.read(file).values():
                _ = each.principal, each.expires_at

        return act, data

    return case


def _lists(stack: ExitStack) -> Draw:
    from oscine_service.batch import lists

    file = _folder(stack) / "list"
    rows = ("Hello.", "a|Hello.", "a|ada|Hello.", "a|words|a.wav|Hello.", '{"text": "Hello.", "seed": 1, "speed": 1.2}')

    def case(random: Random) -> Case:
        row = random.choice(rows)
        kept = (row, row, row.replace("a|", f"{draw.plain(random, 5)}|"), draw.plain(random, 40))
        lines = draw.shuffled(random, kept, 6)
        data = "\n".join(lines).encode()
        data = draw.damaged(random, data) if draw.chance(random, 0.4) else data
        if draw.chance(random, 0.02):
            data = b'{"text":' * 20_000

        def act() -> None:
            file.write_bytes(data)
            lists.read(file)

        return act, data

    return case


def _voices(stack: ExitStack) -> Draw:
    """What comes from files: a store, whose arrays and rows were changed, and spk2info.pt."""
    import hashlib
    import sqlite3

    import torch
    from safetensors.torch import save

    from oscine_engine.checkpoint import layout
    from oscine_engine.checkpoint.voices import read_voices, write_voices
    from oscine_engine.text.tokenizer import Tokenizer
    from oscine_engine.voices.prompt import VoicePrompt
    from oscine_engine.voices.store import VoiceStore

    folder = _folder(stack)
    tokens = torch.arange(25, dtype=torch.int32)
    prompt = VoicePrompt("a", "en", "", "", "Words.", tokens.clone(), tokens, torch.zeros(50, 80), torch.ones(192))
    store = VoiceStore(folder / "store", cached_bytes=0)
    stored = store.add(prompt)
    arrays = {name: getattr(prompt, name) for name in ("lm_speech_tokens", "flow_speech_tokens", "mel", "embedding")}
    info = folder / "spk2info.pt"
    write_voices({"a": prompt, "b": prompt}, info)
    packed = info.read_bytes()
    tokenizer = Tokenizer.load(layout.find(None).text_model)
    kinds = (torch.float32, torch.int64, torch.int32, torch.bool, torch.complex64, torch.float16, torch.uint8)

    def tensor(random: Random) -> torch.Tensor:
        shape = random.choice(((), (0,), (1,), (3,), (1, 0), (50, 80), (1, 50, 80), (192,), (2, 192), (1, 1, 1, 1)))
        made = torch.full(shape, random.choice((0.0, 1.0, -1.0, 1e9, math.nan, math.inf)))
        return made.to(random.choice(kinds))

    def odd(random: Random) -> Any:
        return random.choice((tensor(random), None, 1, "", "a", [], {}, [1, 2], b"x", draw.plain(random, 30)))

    def of_store(random: Random) -> Case:
        changed = dict(arrays)
        for name in draw.shuffled(random, tuple(arrays), 2):
            changed[name] = tensor(random)
        if draw.chance(random, 0.1):
            del changed[random.choice(tuple(changed))]
        data = save(changed)
        data = draw.damaged(random, data) if draw.chance(random, 0.5) else data
        row = {"digest": hashlib.sha256(data).hexdigest()}
        if draw.chance(random, 0.2):
            row[random.choice(("language", "transcript", "prompt_text", "seconds"))] = draw.plain(random, 20)

        def act() -> None:
            (folder / "store" / "arrays" / f"{row['digest']}.safetensors").write_bytes(data)
            with sqlite3.connect(folder / "store" / "voices.sqlite3") as rows:
                for name, value in row.items():
                    rows.execute(f"UPDATE voices SET {name} = ? WHERE name = 'a'", (value,))
            try:
                store.get("a")
            finally:
                (folder / "store" / "arrays" / f"{row['digest']}.safetensors").unlink()
                rows.close()

        return act, (row, data)

    def of_table(random: Random) -> Case:
        table: Any = {}
        for name in ("a", 1, draw.plain(random, 10)):
            entry: Any = {
                "llm_prompt_speech_token": tokens[None],
                "flow_prompt_speech_token": tokens[None],
                "prompt_speech_feat": torch.zeros(1, 50, 80),
                "flow_embedding": torch.ones(1, 192),
                "prompt_text": random.choice(("Words.", tokens[None].to(torch.int64))),
            }
            for _ in range(random.randrange(3)):
                entry[random.choice((*entry, "language", "transcript", "description"))] = odd(random)
            table[name] = odd(random) if draw.chance(random, 0.05) else entry
        table = odd(random) if draw.chance(random, 0.02) else table

        def act() -> None:
            torch.save(table, info)
            read_voices(info, tokenizer.decode)

        return act, table

    def of_file(random: Random) -> Case:
        # A pickle lies at its start, and a directory of the archive at its end.
        place = random.choice((0, 0, max(0, len(packed) - 800)))
        data = packed[:place] + draw.damaged(random, packed[place : place + 800]) + packed[place + 800 :]

        def act() -> None:
            info.write_bytes(data)
            read_voices(info, tokenizer.decode)

        return act, data

    def of_prompt(random: Random) -> Case:
        changed: dict[str, Any] = {**arrays, random.choice(tuple(arrays)): tensor(random)}
        return lambda: VoicePrompt("a", "en", "", "", "", **changed), changed

    assert stored.name == "a"
    return lambda random: random.choice((of_store, of_store, of_table, of_file, of_file, of_prompt))(random)


def _unit(stack: ExitStack) -> Draw:
    """Messages between the two processes of a unit, as each side reads them."""
    from google.protobuf.message import DecodeError

    from oscine_proto.oscine.unit.v1 import unit_pb2 as pb
    from oscine_service.unit import figures_wire, wire

    readers: tuple[tuple[Any, Callable[[Any], object]], ...] = (
        (pb.Open, wire.options),
        (pb.Speak, lambda message: wire.steps(message.steps)),
        (pb.StreamResponse, wire.event),
        (pb.Error, wire.error),
        (pb.Figures, figures_wire.figures),
    )

    def case(random: Random) -> Case:
        kind, read = random.choice(readers)
        data = protobuf.wire(random, protobuf.filled(random, kind.DESCRIPTOR, 0.5))

        def act() -> None:
            try:
                message = kind.FromString(data)
            except DecodeError:
                return  # which ends the call that it came in
            try:
                read(message)
            except ValueError:
                if kind is not pb.Figures:  # of another release, which is what this says
                    raise

        return act, (kind.__name__, data)

    return case


def _unit_host(stack: ExitStack) -> Draw:
    from bench.fuzz import unit_host

    host = unit_host.Host(stack, _folder(stack))

    def case(random: Random) -> Case:
        sent = unit_host.requests(random, host.voice)
        return lambda: host.call(sent), sent

    return case


def _telephony(stack: ExitStack) -> Draw:
    """Offers of calls, and what comes to the ports of one."""
    from oscine_service.telephony.rtp import offer, packet, rtcp

    lines = ("v=0", "o=- 1 1 IN IP4 192.0.2.1", "s=-", "c=IN IP4 192.0.2.1", "t=0 0", "m=audio 4000 RTP/AVP 0 8 96 101",
             "a=rtpmap:96 opus/48000/2", "a=fmtp:96 maxplaybackrate=16000;stereo=0",
             "a=rtpmap:101 telephone-event/8000",
             "a=sendrecv", "a=ptime:20", "a=rtcp:4001 IN IP4 192.0.2.1", "m=video 4002 RTP/AVP 99", "a=rtcp-mux",
             "a=crypto:1 AES_CM_128_HMAC_SHA1_80 inline:" + "A" * 40)  # fmt: skip
    sender = rtcp.SenderReport(7, 1 << 40, 160, 1, 160, (rtcp.Block(9, 25, 3, 70000, 1, 5, 6),))
    told = (packet.write(0, 1, 160, 7, bytes(160)), rtcp.write([sender]))

    def case(random: Random) -> Case:
        if draw.chance(random, 0.5):
            data = draw.damaged(random, random.choice(told))

            def received() -> None:
                try:
                    rtcp.parse(data) if packet.is_rtcp(data) else packet.parse(data)
                except packet.Malformed:
                    return

            return received, data
        kept = list(lines)
        for _ in range(random.randrange(4)):
            place = random.randrange(len(kept))
            kept[place : place + 1] = draw.shuffled(random, (draw.text(random, 60), random.choice(lines)), 2)
            kept = kept or ["v=0"]
        text = "\r\n".join(kept)
        text = (
            draw.damaged(random, text.encode(errors="replace")).decode(errors="replace") if len(text) % 3 == 0 else text
        )
        return lambda: offer.read(text), text

    return case


def _reward(stack: ExitStack) -> Draw:
    import base64

    from oscine_service.reward import app

    whole = {"text": "Hello.", "audio": "", "language": "en"}

    def case(random: Random) -> Case:
        wanted: Any = {**whole, "audio": base64.b64encode(recording(random, foreign=0.0)).decode()}
        for _ in range(random.randrange(4)):
            wanted = draw.altered(random, wanted)
        body = draw.dumped(random, wanted).encode(errors="surrogatepass")

        def act() -> None:
            item = app._object(body)
            app._text(item), app._language(item), app._audio(item)

        return act, body

    return case


PARSERS: dict[str, Parser] = {
    "text": Parser(_text),
    "ssml": Parser(_ssml),
    "lexicon": Parser(_lexicon),
    "recordings": Parser(_recordings),
    "settings": Parser(_settings),
    "keys": Parser(_keys),
    "lists": Parser(_lists),
    "voices-files": Parser(_voices),
    "unit": Parser(_unit, internal=True),
    "unit-host": Parser(_unit_host, internal=True, one_in=10),
    "telephony": Parser(_telephony),
    "reward": Parser(_reward),
}
