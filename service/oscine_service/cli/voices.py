"""`oscine voices`: what can be spoken as, and voices made from recordings. No network of the model is loaded."""

import argparse
import asyncio
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from oscine_engine.errors import InvalidInput
from oscine_service.cli.files import contents
from oscine_service.config import parse
from oscine_service.config.model import SETTINGS, Engine
from oscine_service.storage.address import Address

if TYPE_CHECKING:
    from oscine_engine.checkpoint.layout import ModelFiles
    from oscine_engine.voices.catalogue import StoredVoice
    from oscine_engine.voices.prompt import VoicePrompt
    from oscine_engine.voices.store import VoiceStore
    from oscine_service.storage.voice_store import SharedVoiceStore

STORE = SETTINGS["voices"].variable
"""The environment's name for the voice store."""
HELP = "list the voices of a model and a store; add, show, export or remove those of a store"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    where = argparse.ArgumentParser(add_help=False)
    for each in (parser, where):
        # Unset unless given: what stands before the verb must not be undone by a default behind it.
        each.add_argument(
            "--model",
            type=Path,
            default=argparse.SUPPRESS,
            metavar="DIR",
            help="model directory (default: the embedded voice)",
        )
        each.add_argument(
            "--store",
            type=parse.store,
            default=argparse.SUPPRESS,
            metavar="STORE",
            help=f"voice store: a folder, s3://BUCKET/PREFIX or file:///FOLDER (default: ${STORE})",
        )
    verbs = parser.add_subparsers(dest="verb", metavar="VERB")
    verbs.add_parser("list", parents=[where], help="name, language and description of each (the default)")

    adding = verbs.add_parser("add", parents=[where], help="make a voice from a recording of somebody who agreed to it")
    adding.add_argument("name", metavar="NAME")
    adding.add_argument("recording", type=Path, metavar="RECORDING", help="3 to 10 s of clear speech (WAV, FLAC, MP3)")
    adding.add_argument("--transcript", default="", metavar="TEXT", help="what is said in it: a better likeness")
    adding.add_argument("--language", choices=["en", "zh"], help="default: by the transcript")
    adding.add_argument("--description", default="", metavar="TEXT", help="for whoever lists the voices")
    adding.add_argument("--replace", action="store_true", help="take the place of a voice of this name")

    importing = verbs.add_parser("import", parents=[where], help="take the voices of a model's spk2info.pt")
    importing.add_argument("file", type=Path, metavar="FILE")
    importing.add_argument("--replace", action="store_true", help="take the place of voices of these names")

    showing = verbs.add_parser("show", parents=[where], help="all that is known of a voice of the store")
    removing = verbs.add_parser("remove", parents=[where], help="delete a voice of the store")
    exporting = verbs.add_parser("export", parents=[where], help="write a voice of the store as a spk2info.pt")
    for verb in (showing, removing, exporting):
        verb.add_argument("name", metavar="NAME")
    exporting.add_argument("output", type=Path, metavar="FILE")


async def voices(options: argparse.Namespace, engine: Engine) -> None:
    """Run the verb. Raises InvalidInput, UnknownVoice and StoreError, each with what to do.

    engine: the model and the store where the command line names none.
    """
    options.model = getattr(options, "model", engine.model)
    options.store = getattr(options, "store", engine.voices)
    verbs: dict[str | None, Callable[[argparse.Namespace], None]] = {
        None: _list,
        "list": _list,
        "add": _add,
        "import": _import,
        "show": _show,
        "remove": _remove,
        "export": _export,
    }
    await asyncio.to_thread(verbs[options.verb], options)


def _list(options: argparse.Namespace) -> None:
    """The first is the default."""
    shipped = _shipped(_files(options))
    lines = [(voice.name, voice.language, voice.description) for voice in shipped.values()]
    if options.store is not None:
        stored = _store(options).list()
        lines += [(voice.name, voice.language, voice.description) for voice in stored if voice.name not in shipped]
    width = max((len(name) for name, _, _ in lines), default=0)
    for name, language, description in lines:
        print(f"{name:{width}}  {language}  {description}".rstrip())


def _add(options: argparse.Namespace) -> None:
    from oscine_codecs import files as audio_files
    from oscine_engine.checkpoint.configuration import read_config
    from oscine_engine.voices.encoders import Encoders
    from oscine_engine.voices.registration import Reference, register

    files, store = _files(options), _store(options)
    if options.name in _shipped(files):
        raise InvalidInput(f"the model has a voice {options.name!r}, which comes first; take another name")
    samples, rate = audio_files.decode(contents(options.recording, "the recording"))
    reference = Reference(options.name, options.transcript, options.language, options.description)
    front_end = read_config(files).text.front_end
    voice = register(samples, rate, reference, Encoders(*files.encoders()), front_end)
    store.tidy()
    _print(store.add(voice, replace_it=options.replace))
    if not voice.transcript:
        print("oscine: without --transcript the voice is copied from its sound alone", file=sys.stderr)


def _import(options: argparse.Namespace) -> None:
    from oscine_engine.checkpoint.configuration import read_config
    from oscine_engine.checkpoint.voices import read_voices
    from oscine_engine.text.tokenizer import Tokenizer
    from oscine_engine.voices.transcript import check_letters

    files, store = _files(options), _store(options)
    found = read_voices(options.file, Tokenizer.load(files.text_model).decode).values()
    for voice in found:
        check_letters(voice.transcript, read_config(files).text.front_end, f"the transcript of {voice.name!r}")
    for voice in found:
        _print(store.add(voice, replace_it=options.replace))


def _show(options: argparse.Namespace) -> None:
    stored = _store(options).find(options.name)
    for name in ("name", "language", "description", "transcript", "seconds", "bytes", "digest"):
        if (value := getattr(stored, name)) != "":
            print(f"{name:12} {value}")


def _remove(options: argparse.Namespace) -> None:
    store = _store(options)
    store.remove(options.name)
    store.tidy()
    print(f"removed {options.name}")


def _export(options: argparse.Namespace) -> None:
    from oscine_engine.checkpoint.voices import write_voices

    found = _store(options).get(options.name)
    try:
        options.output.parent.mkdir(parents=True, exist_ok=True)
        write_voices({options.name: found}, options.output)
    except OSError as error:
        raise InvalidInput(f"cannot write {str(options.output)!r}: {error.strerror}") from error
    print(f"wrote {options.output}")


def _print(stored: "StoredVoice") -> None:
    print(f"{stored.name}: {stored.language}, {stored.seconds:.1f} s, {stored.bytes / 1e3:.0f} kB")


def _files(options: argparse.Namespace) -> "ModelFiles":
    from oscine_engine.checkpoint import layout

    return layout.find(options.model)


def _shipped(files: "ModelFiles") -> "dict[str, VoicePrompt]":
    from oscine_engine.checkpoint.voices import read_voices
    from oscine_engine.text.tokenizer import Tokenizer

    return read_voices(files.voices, Tokenizer.load(files.text_model).decode) if files.voices else {}


def _store(options: argparse.Namespace) -> "VoiceStore | SharedVoiceStore":
    if options.store is None:
        raise InvalidInput(f"name the voice store: --store, or {STORE} in the environment")
    if isinstance(options.store, Address):
        from oscine_service.storage.bucket import opened
        from oscine_service.storage.shared import SharedVoices
        from oscine_service.storage.voice_store import SharedVoiceStore

        return SharedVoiceStore(SharedVoices(opened(options.store)))
    from oscine_engine.voices.store import VoiceStore

    return VoiceStore(options.store)
