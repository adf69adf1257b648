"""Arguments of the `oscine` command, and errors as one line and an exit status.

Exit status: 0 done, 1 it could not be done, 2 the command was wrong, 130 interrupted, 143 terminated. Whatever needs a
model is imported by its command: help comes at once, and an interrupt while libraries load is caught like any other.
"""

import argparse
import asyncio
import contextlib
import io
import os
import signal
import sys
from collections.abc import Coroutine, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from oscine_engine.errors import InvalidInput
from oscine_service.cli import batch, convert, doctor, early, keys, ready, reward, settings, speaking, text, top, voices
from oscine_service.cli.addresses import address
from oscine_service.cli.telling import give_up
from oscine_service.config import arguments
from oscine_service.config.engine import engine_settings
from oscine_service.config.model import Settings
from oscine_service.config.setting import Contradiction
from oscine_service.config.sources import KEY_VARIABLE, Resolved
from oscine_service.observe import logs
from oscine_service.storage import places
from oscine_service.storage.fetching import fetched

if TYPE_CHECKING:
    from oscine_engine.events import SessionRequest

FAILED, WRONG, INTERRUPTED, TERMINATED = 1, 2, 130, 143
PORT = 50051


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(WRONG, f"{self.prog}: {message} (see {self.prog} --help)\n")


def main(given: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit status."""
    _fill_standard_files()
    for each in (sys.stdout, sys.stderr):
        if isinstance(each, io.TextIOWrapper):
            # Names may be in letters that this terminal's encoding has not.
            each.reconfigure(errors="backslashreplace")
    # grpc's core writes lines of its own about what is raised anyway. Read when grpc is imported.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    # Nothing forks here without starting another program at once, which grpc's preparations for a fork only hinder.
    os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
    try:
        options = _parser().parse_args(given)
        if options.command in ("say", "batch", "demo"):
            options.check(options)
        if options.command == "serve":
            early.end_well_on_signals()
        if options.command == "doctor":
            return doctor.run(options)
        try:
            resolved = arguments.resolved(options)
        except InvalidInput as error:
            print(f"oscine: {error}", file=sys.stderr)
            return WRONG
        for warning in resolved.warnings:
            print(f"oscine: {warning}", file=sys.stderr)
        logs.set_up(resolved.settings.observe.log_level, resolved.settings.observe.log_format)
        return _run(options, resolved)
    except BrokenPipeError:
        return _unread()
    except KeyboardInterrupt:
        return INTERRUPTED
    except asyncio.CancelledError:
        return TERMINATED


def _fill_standard_files() -> None:
    """Put the null device where standard files are closed: uvloop aborts when one of its own gets their numbers."""
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)


def _run(options: argparse.Namespace, resolved: Resolved) -> int:
    from oscine_codecs.errors import CodecError
    from oscine_engine.errors import OscineError
    from oscine_service.event_loop import new_event_loop

    status = 0
    try:
        with asyncio.Runner(loop_factory=new_event_loop) as runner:
            runner.run(_until_terminated(_command(options, resolved)))
    except* BrokenPipeError:
        status = _unread()
    except* Contradiction as group:
        print(f"oscine: {_first(group)}", file=sys.stderr)
        status = WRONG
    except* (OscineError, CodecError, OSError) as group:
        print(f"oscine: {_said(_first(group))}", file=sys.stderr)
        status = FAILED
    return status


def _unread() -> int:
    """Whoever read our output has left; Python would complain again while it flushes at exit."""
    give_up(sys.stdout)
    return FAILED


async def _until_terminated(command: Coroutine[Any, Any, None]) -> None:
    """Run `command`; SIGTERM cancels it, so that it cleans up as after an interrupt."""
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    await command


def _first(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _said(error: BaseException) -> str:
    """On a line, without the number that Python puts before what is wrong with a file, and without what a terminal
    obeys: a server may have said it."""
    if isinstance(error, OSError) and isinstance(error.filename, str) and error.strerror:
        return f"{error.filename!r}: {error.strerror}"
    return "".join(each if each.isprintable() else " " for each in str(error)).strip()


def _command(options: argparse.Namespace, resolved: Resolved) -> Coroutine[Any, Any, None]:
    # Each imports what it needs: only those with an engine in this process need networks.
    match options.command:
        case "voices":
            return voices.voices(options, resolved.settings.engine)
        case "convert":
            return convert.convert(options)
        case "text":
            return text.text(options)
        case "keys":
            return keys.run(options, resolved.settings.security)
        case "settings":
            return settings.show(resolved)
        case "ready":
            return ready.ready(resolved.settings)
        case "batch":
            return _with_voices(resolved.settings, batch.batch(options, engine_settings(resolved.settings)))
        case "reward":
            return reward.reward(options)
        case "top":
            return top.top(options, os.environ.get(KEY_VARIABLE))
        case "serve":
            from oscine_service.cli import serve

            return serve.serve(resolved.settings)
        case "say" if options.server is not None:
            from oscine_service.cli import client

            server = client.Server(options.server, options.key or os.environ.get(KEY_VARIABLE), options.tls, options.ca)
            return client.say(server, options.text, _request(options), options.output)
        case "say":
            from oscine_service.cli import say

            spoken = say.say(engine_settings(resolved.settings), options.text, _request(options), options.output)
            return _with_voices(resolved.settings, spoken)
        case _:
            from oscine_service.cli import demo

            return _with_voices(resolved.settings, demo.demo(engine_settings(resolved.settings), options.output))


async def _with_voices(settings: Settings, command: Coroutine[Any, Any, None]) -> None:
    """Run what has an engine in this process, with this machine's copy of shared voices up to date."""
    with contextlib.closing(command):
        if places.shared(settings.engine) is not None:
            await fetched(settings.engine)
        await command


def _request(options: argparse.Namespace) -> "SessionRequest":
    from oscine_engine.events import Mode, SessionRequest

    mode = options.mode or ("auto" if options.text == "-" else "sentence")
    return SessionRequest(voice=options.voice, mode=Mode(mode), seed=options.seed, **speaking.fields(options))


def _check(parser: argparse.ArgumentParser, engine: arguments.Arguments, options: argparse.Namespace) -> None:
    """End with status 2 if what only an engine of its own can heed was given beside a server, or what only a service
    can."""
    given = engine.given(options, "engine")
    server = getattr(options, "server", None)
    alone = [flag for flag in ("key", "tls", "ca") if getattr(options, flag, None)]
    if server is None and alone:
        parser.error(f"--{alone[0]}: without meaning unless --server names a service")
    if server is not None and given:
        parser.error(
            f"{', '.join(given)}: without meaning beside --server, the service at {server} has settled that; "
            "leave out one or the other"
        )
    if len(devices := arguments.flag(options, "device") or ()) > 1:
        parser.error(f"argument --device: {','.join(devices)!r} is not a device: use cpu, cuda or cuda:N")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="oscine", description="Real-time text to speech.")
    arguments.Arguments(parser, ["observe"], leave_out=("metrics", "traces"))
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    serving = commands.add_parser("serve", help="run the service: gRPC, WebSocket and HTTP")
    arguments.Arguments(serving, arguments.ALL)

    saying = commands.add_parser("say", help="speak a text, or standard input as it comes")
    saying.add_argument("text", help="what to say; - reads standard input")
    saying.add_argument(
        "-o",
        "--output",
        type=_output,
        metavar="FILE",
        help="write it to a .wav, .ogg, .opus, .mp3 or .flac file (default: play it)",
    )
    saying.add_argument(
        "--server",
        type=partial(address, port=PORT),
        metavar="HOST[:PORT]",
        help=f"let the service at this address speak (port {PORT} if none is given; default: an engine of its own)",
    )
    saying.add_argument("--key", help=f"beside --server: the key that it asks for (default: ${KEY_VARIABLE})")
    saying.add_argument("--tls", action="store_true", help="beside --server: speak to it over TLS")
    saying.add_argument(
        "--ca", type=Path, metavar="FILE", help="beside --server: trust the authorities in this PEM file, over TLS"
    )
    saying.add_argument("--voice", help="name of a voice (default: the model's first; see oscine voices)")
    saying.add_argument("--seed", type=int, help="same seed, voice, mode and text: same speech")
    saying.add_argument(
        "--mode",
        choices=["sentence", "interleaved", "auto"],
        help="when to read: whole sentences, words as they come, or words at first and sentences later "
        "(default: sentence for a text, auto for standard input)",
    )

    speaking.add_arguments(saying)

    batching = commands.add_parser("batch", help=batch.HELP)
    batch.add_arguments(batching)

    showing = commands.add_parser("demo", help="serve, stream a text in word by word over gRPC, write the speech")
    showing.add_argument("-o", "--output", type=_output, metavar="FILE", default="out/demo.wav")

    voices.add_arguments(commands.add_parser("voices", help=voices.HELP))
    text.add_arguments(commands.add_parser("text", help=text.HELP))
    doctor.add_arguments(commands.add_parser("doctor", help=doctor.HELP))
    ready.add_arguments(commands.add_parser("ready", help=ready.HELP))
    top.add_arguments(commands.add_parser("top", help=top.HELP))
    keys.add_arguments(commands.add_parser("keys", help=keys.HELP))
    settings.add_arguments(commands.add_parser("settings", help=settings.HELP))
    reward.add_arguments(commands.add_parser("reward", help=reward.HELP))
    convert.add_arguments(commands.add_parser("convert", help="convert a model, or its language model for vLLM"))

    for command in (saying, batching, showing):
        # A list says how many at a time by an option of its own.
        other = ("max_streams",) if command is batching else ()
        engine = arguments.Arguments(command, ["engine"], leave_out=("utilisation", "vllm", "references", *other))
        command.set_defaults(check=partial(_check, command, engine))
    return parser


def _output(text: str) -> Path:
    path = Path(text)
    if path.suffix not in (".wav", ".ogg", ".opus", ".mp3", ".flac"):
        raise argparse.ArgumentTypeError(f"{text!r} must end in .wav, .ogg, .opus, .mp3 or .flac")
    return path
