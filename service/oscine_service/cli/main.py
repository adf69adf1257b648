"""Arguments of the `oscine` command, and errors as one line and an exit status.

Exit status: 0 done, 1 it could not be done, 2 the command was wrong, 130 interrupted, 143 terminated. Whatever needs a
model is imported by its command: help comes at once, and an interrupt while libraries load is caught like any other.
"""

import argparse
import asyncio
import logging
import math
import os
import signal
import sys
from collections.abc import Coroutine, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from oscine_service.cli import convert, early, text, voices
from oscine_service.cli.engine_options import EngineOptions

if TYPE_CHECKING:
    from oscine_engine.events import SessionRequest
    from oscine_engine.settings import EngineSettings

FAILED, WRONG, INTERRUPTED, TERMINATED = 1, 2, 130, 143
PORT = 50051


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(WRONG, f"{self.prog}: {message} (see {self.prog} --help)\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit status."""
    _fill_standard_files()
    # grpc's core writes lines of its own about what is raised anyway. Read when grpc is imported.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    # Nothing forks here without starting another program at once, which grpc's preparations for a fork only hinder.
    os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
    try:
        options = _parser().parse_args(arguments)
        if options.command == "say":
            options.check(options)
        if options.command == "serve":
            early.end_well_on_signals()
        logging.basicConfig(level=options.log_level.upper(), format="%(asctime)s %(levelname)s %(name)s: %(message)s")
        return _run(options)
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


def _run(options: argparse.Namespace) -> int:
    from oscine_codecs.errors import CodecError
    from oscine_engine.errors import OscineError
    from oscine_service.event_loop import new_event_loop

    status = 0
    try:
        with asyncio.Runner(loop_factory=new_event_loop) as runner:
            runner.run(_until_terminated(_command(options)))
    except* BrokenPipeError:
        # Whoever read our output has left; Python would complain again while it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = FAILED
    except* (OscineError, CodecError, OSError) as group:
        print(f"oscine: {_first(group)}", file=sys.stderr)
        status = FAILED
    return status


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


def _command(options: argparse.Namespace) -> Coroutine[Any, Any, None]:
    # Each imports what it needs: only those with an engine in this process need networks.
    match options.command:
        case "voices":
            return voices.voices(options)
        case "convert":
            return convert.convert(options)
        case "text":
            return text.text(options)
        case "serve":
            from oscine_service.cli import serve
            from oscine_service.limits import Limits

            settings, devices = _settings(options)
            how = serve.Serve(
                options.host, options.port, devices, options.grace, options.in_process, options.hang_timeout
            )
            limits = Limits(
                idle_timeout_s=options.idle_timeout,
                write_timeout_s=options.write_timeout,
                pause_timeout_s=options.pause_timeout,
            )
            return serve.serve(settings, how, limits)
        case "say" if options.server is not None:
            from oscine_service.cli import client

            return client.say(options.server, options.text, _request(options), options.output)
        case "say":
            from oscine_service.cli import say

            return say.say(_settings(options)[0], options.text, _request(options), options.output)
        case _:
            from oscine_service.cli import demo

            return demo.demo(_settings(options)[0], options.output)


def _settings(options: argparse.Namespace) -> "tuple[EngineSettings, tuple[str, ...]]":
    """Those of the first engine, and the device of each."""
    from oscine_engine.settings import EngineSettings, Precision

    values = dict(options.engine.values(options))
    devices = tuple(values.pop("device").split(","))
    precision: Precision = values.pop("precision") or ("float32" if devices[0] == "cpu" else "float16")
    return EngineSettings(device=devices[0], precision=precision, **values), devices


def _request(options: argparse.Namespace) -> "SessionRequest":
    from oscine_engine.events import Mode, SessionRequest

    mode = options.mode or ("auto" if options.text == "-" else "sentence")
    return SessionRequest(voice=options.voice, mode=Mode(mode), seed=options.seed)


def _check(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """End with status 2 if what only an engine of its own can heed was given beside a server."""
    given = options.engine.given(options)
    if options.server is not None and given:
        parser.error(
            f"{', '.join(given)}: without meaning beside --server, the service at {options.server} has settled that; "
            "leave out one or the other"
        )


def _parser() -> argparse.ArgumentParser:
    # Light, unlike what an engine is told in.
    from oscine_engine.scheduler.admission import UTILISATION

    parser = _Parser(prog="oscine", description="Real-time text to speech.")
    parser.add_argument("--log-level", default="warning", choices=["debug", "info", "warning", "error"])
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    serving = commands.add_parser("serve", help="run the gRPC service")
    serving.add_argument("--host", default="127.0.0.1", help="address to listen on (default %(default)s)")
    serving.add_argument("--port", type=_port, default=PORT, help="0 picks a free one (default %(default)s)")

    serving.add_argument(
        "--idle-timeout",
        type=_seconds,
        default=300.0,
        metavar="SECONDS",
        help="end a call whose client sends nothing with nothing left to say (default %(default)g)",
    )
    serving.add_argument(
        "--write-timeout",
        type=_seconds,
        default=60.0,
        metavar="SECONDS",
        help="end a call whose client takes no response and reports nothing as played (default %(default)g)",
    )
    serving.add_argument(
        "--pause-timeout",
        type=_seconds,
        default=3600.0,
        metavar="SECONDS",
        help="end a call whose client reported what was played and does so no more, with more left to say "
        "(default %(default)g)",
    )

    serving.add_argument(
        "--grace",
        type=_wait,
        default=30.0,
        metavar="SECONDS",
        help="how long running calls may take to end after SIGTERM or SIGINT; a second signal cuts them off "
        "(default %(default)g)",
    )
    serving.add_argument(
        "--hang-timeout",
        type=_seconds,
        default=10.0,
        metavar="SECONDS",
        help="replace an engine process that answers no heartbeat for so long (default %(default)g)",
    )
    serving.add_argument(
        "--in-process",
        action="store_true",
        help="run the engine in this process, where a fault in it ends the service",
    )

    saying = commands.add_parser("say", help="speak a text, or standard input as it comes")
    saying.add_argument("text", help="what to say; - reads standard input")
    saying.add_argument(
        "-o", "--output", type=_output, metavar="FILE", help="write it to a .wav, .ogg or .opus file (default: play it)"
    )
    saying.add_argument(
        "--server",
        type=_address,
        metavar="HOST[:PORT]",
        help=f"let the service at this address speak (port {PORT} if none is given; default: an engine of its own)",
    )
    saying.add_argument("--voice", help="name of a voice (default: the model's first; see oscine voices)")
    saying.add_argument("--seed", type=int, help="same seed, voice, mode and text: same speech")
    saying.add_argument(
        "--mode",
        choices=["sentence", "interleaved", "auto"],
        help="when to read: whole sentences, words as they come, or words at first and sentences later "
        "(default: sentence for a text, auto for standard input)",
    )

    showing = commands.add_parser("demo", help="serve, stream a text in word by word over gRPC, write the speech")
    showing.add_argument("-o", "--output", type=_output, metavar="FILE", default="out/demo.wav")

    voices.add_arguments(commands.add_parser("voices", help=voices.HELP))
    text.add_arguments(commands.add_parser("text", help=text.HELP))
    convert.add_arguments(commands.add_parser("convert", help="convert a model, or its language model for vLLM"))

    for command in (serving, saying, showing):
        engine = EngineOptions(command)
        command.set_defaults(engine=engine)
        engine.add("--model", None, "model directory (default: the embedded voice)", type=Path, metavar="DIR")
        engine.add(
            "--voices",
            voices.store_folder(),
            f"folder of a voice store, whose voices can be named as well (default: ${voices.STORE})",
            type=Path,
            metavar="DIR",
        )
        engine.add("--lm-file", "llm", "which language model to load (default {})", choices=["llm", "llm.rl"])
        if command is serving:
            engine.add(
                "--device",
                "cpu",
                "cpu, cuda (the first GPU) or cuda:N; an engine process runs on each of several, such as "
                "cuda:0,cuda:1 (default {})",
                type=_devices,
                metavar="DEVICE[,DEVICE...]",
            )
        else:
            engine.add("--device", "cpu", "cpu, cuda or cuda:N (default {})", type=_device)
        engine.add(
            "--precision",
            None,
            "of the language model and the flow on a GPU (default float16); a CPU computes in float32",
            choices=["float32", "float16", "bfloat16"],
        )
        engine.add("--max-streams", 8, "streams a device (default {})", type=_count)
        if command is serving:
            engine.add(
                "--utilisation",
                UTILISATION,
                "admit calls up to this share of what the machine can compute when all speak at once, by its own "
                "measure; inf counts calls only (default {:g})",
                type=_share,
                metavar="SHARE",
            )
            engine.add(
                "--vllm",
                None,
                "let vLLM compute the language model that oscine convert --to vllm wrote to this directory",
                type=Path,
                metavar="DIR",
            )
    saying.set_defaults(check=partial(_check, saying))
    return parser


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port: use a number from 0 to 65535")
    return int(text)


def _device(text: str) -> str:
    kind, _, number = text.partition(":")
    if text not in ("cpu", "cuda") and not (kind == "cuda" and number.isdecimal()):
        raise argparse.ArgumentTypeError(f"{text!r} is not a device: use cpu, cuda or cuda:N")
    return text


def _devices(text: str) -> str:
    """Devices of one kind, separated by commas; each GPU once."""
    devices = [_device(each) for each in text.split(",")]
    gpus = [device.partition(":")[2] or "0" for device in devices if device != "cpu"]
    if gpus and len(gpus) < len(devices):
        raise argparse.ArgumentTypeError(f"{text!r} names a CPU and a GPU: calls would differ by where they are placed")
    if len({int(gpu) for gpu in gpus}) < len(gpus):
        raise argparse.ArgumentTypeError(f"{text!r} names a GPU twice: one engine fills it")
    return ",".join(devices)


def _address(text: str) -> str:
    host, colon, port = text.rpartition(":")
    if not colon or text.endswith("]"):
        host, port = text, str(PORT)
    if not host or "/" in host or (":" in host and not host.startswith("[")):
        raise argparse.ArgumentTypeError(f"{text!r} is not HOST or HOST:PORT; an IPv6 address stands in brackets")
    return f"{host}:{_port(port)}"


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 up")
    return int(text)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not seconds > 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds above 0 (inf for no limit)")
    return seconds


def _wait(text: str) -> float:
    return 0.0 if text == "0" else _seconds(text)


def _share(text: str) -> float:
    try:
        share = float(text)
    except ValueError:
        share = math.nan
    if not share > 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a share above 0 (inf for no limit)")
    return share


def _output(text: str) -> Path:
    path = Path(text)
    if path.suffix not in (".wav", ".ogg", ".opus"):
        raise argparse.ArgumentTypeError(f"{text!r} must end in .wav, .ogg or .opus")
    return path
