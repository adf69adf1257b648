"""Arguments of the `oscine` command, and errors as one line and an exit status."""

import argparse
import asyncio
import logging
import sys
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import Any

from oscine_codecs.errors import CodecError
from oscine_engine.engine import EngineSettings
from oscine_engine.errors import OscineError
from oscine_engine.events import Mode, SessionRequest
from oscine_service.cli import demo, say, serve

USAGE_ERROR, FAILURE, INTERRUPTED = 2, 1, 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit status."""
    options = _parser().parse_args(arguments)
    logging.basicConfig(level=options.log_level.upper(), format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    try:
        _run(_command(options))
    except (OscineError, CodecError) as error:
        print(f"oscine: {error}", file=sys.stderr)
        return FAILURE
    except KeyboardInterrupt:
        return INTERRUPTED
    return 0


def _command(options: argparse.Namespace) -> Coroutine[Any, Any, None]:
    settings = EngineSettings(model=options.model, lm_file=options.lm_file, max_streams=options.max_streams)
    match options.command:
        case "serve":
            return serve.serve(settings, options.host, options.port)
        case "say":
            mode = options.mode or (Mode.AUTO if options.text == "-" else Mode.SENTENCE)
            request = SessionRequest(voice=options.voice, mode=Mode(mode), seed=options.seed)
            return say.say(settings, options.text, request, options.output)
        case _:
            return demo.demo(settings, options.output)


def _run(command: Coroutine[Any, Any, None]) -> None:
    try:
        import uvloop
    except ImportError:  # no wheel for this platform: asyncio's own loop serves
        asyncio.run(command)
    else:
        uvloop.run(command)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="oscine", description="Real-time text to speech.")
    parser.add_argument("--log-level", default="warning", choices=["debug", "info", "warning", "error"])
    commands = parser.add_subparsers(dest="command", required=True)

    serving = commands.add_parser("serve", help="run the gRPC service")
    serving.add_argument("--host", default="127.0.0.1", help="address to listen on (default %(default)s)")
    serving.add_argument("--port", type=int, default=50051, help="0 picks a free one (default %(default)s)")

    saying = commands.add_parser("say", help="speak a text, or standard input as it comes")
    saying.add_argument("text", help="what to say; - reads standard input")
    saying.add_argument("-o", "--output", type=Path, help="file to write: .wav, .ogg or .opus (default: play it)")
    saying.add_argument("--voice", help="name of a voice (default: the model's first)")
    saying.add_argument("--seed", type=int, help="same seed, voice and text: same speech")
    saying.add_argument(
        "--mode", choices=[str(mode) for mode in Mode], help="default: sentence for a text, auto for standard input"
    )

    showing = commands.add_parser("demo", help="serve, stream a text in word by word over gRPC, write the speech")
    showing.add_argument("-o", "--output", type=Path, default=Path("out/demo.wav"))

    for command in (serving, saying, showing):
        command.add_argument("--model", type=Path, help="model directory (default: the embedded voice)")
        command.add_argument("--lm-file", choices=["llm", "llm.rl"], default="llm", help="which language model to load")
        command.add_argument("--max-streams", type=int, default=8, help="streams at once (default %(default)s)")
    return parser
