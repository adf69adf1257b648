"""What all front doors know of voices: those of the model and those of a store, listed, made and deleted."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice
from pathlib import Path

from oscine_engine.errors import InvalidInput, NoStore, Overloaded, UnknownVoice, VoiceExists
from oscine_engine.front import VoiceInfo
from oscine_engine.voices.catalogue import Catalogue, StoredVoice, check_name, unknown
from oscine_service.security.errors import Forbidden
from oscine_service.security.principal import Grant, Principal
from oscine_service.storage.address import Address
from oscine_service.voices.worker import Worker

MAX_AUDIO_BYTES = 1 << 24
MAX_AUDIO_S = 120.0
"""Of a recording before its pauses are cut; much less makes a voice."""
MAX_TRANSCRIPT, MAX_DESCRIPTION = 2000, 500
MAX_PAGE, PAGE = 1000, 100
MAX_SHOWN = 80
"""Characters of what was sent that an error repeats."""
UPLOADS = 8
"""Recordings that are received at once, through all front doors: each may take MAX_AUDIO_BYTES of memory."""
LANGUAGES = ("en", "zh")
_NO_STORE = "this service keeps no voices: start it with --voices, or OSCINE_VOICES in its environment"


class Origin(StrEnum):
    MODEL = "model"
    OWN = "own"
    SHARED = "shared"


@dataclass(frozen=True, slots=True)
class Voice:
    """What a caller may know of a voice. seconds: of its reference, and created, Unix time: 0 for the model's."""

    name: str
    language: str
    description: str
    origin: Origin
    seconds: float = 0.0
    created: float = 0.0
    transcribed: bool = False


@dataclass(frozen=True, slots=True)
class NewVoice:
    """How a recording is to be kept. Raises InvalidInput that names the field and its range."""

    name: str
    transcript: str = ""
    language: str = ""
    description: str = ""
    replace: bool = False

    def __post_init__(self) -> None:
        check_name(self.name)
        for field, most in (("transcript", MAX_TRANSCRIPT), ("description", MAX_DESCRIPTION)):
            if (size := len(getattr(self, field))) > most:
                raise InvalidInput(f"{field}: {size} characters; at most {most} are taken")
        if self.language and self.language not in LANGUAGES:
            raise InvalidInput(f"language: {self.language!r} is not known; use one of {', '.join(LANGUAGES)}, or none")


@dataclass(frozen=True, slots=True)
class Page:
    """token: where the next one begins, "" if this is the last."""

    voices: tuple[Voice, ...]
    token: str


class Library:
    """Voices for callers, who each see the model's, everybody's and their own. `async with library(...) as voices:`."""

    def __init__(self, shipped: Mapping[str, VoiceInfo], catalogue: Catalogue | None, worker: Worker | None) -> None:
        self._shipped, self._catalogue, self._worker = shipped, catalogue, worker
        self._receiving = 0
        self._making: dict[str, set[str]] = {}
        """Names of voices that are being made, by their owner: they count before they are there."""

    @contextmanager
    def receiving(self, principal: Principal) -> Iterator[None]:
        """Hold a place for a recording while it is being received and read. Raises Overloaded if there is none, and
        Forbidden for who may not add voices, and would take the place of those who may."""
        principal.require(Grant.VOICES)
        if self._receiving >= UPLOADS:
            raise Overloaded(f"{UPLOADS} recordings are being received already; try again", 1.0)
        self._receiving += 1
        try:
            yield
        finally:
            self._receiving -= 1

    async def page(self, principal: Principal, size: int = 0, token: str = "") -> Page:
        """At most `size` voices, 0 for PAGE. Raises InvalidInput for a size or token that is none."""
        if not 0 <= size <= MAX_PAGE:
            raise InvalidInput(f"page_size: {size} is out of range; use 1 to {MAX_PAGE}, or 0 for {PAGE}")
        place, colon, after = token.partition(":")
        if token and (not colon or place not in ("model", "store")):
            raise InvalidInput(
                f"page_token: {token[:MAX_SHOWN]!r} is none that this service gave; leave it empty to begin"
            )
        voices = await self.all(principal)
        found = list(islice(_after(voices, place, after), (size or PAGE) + 1))
        shown = tuple(found[: size or PAGE])
        if len(found) == len(shown):
            return Page(shown, "")
        return Page(shown, f"{'model' if shown[-1].origin is Origin.MODEL else 'store'}:{shown[-1].name}")

    async def all(self, principal: Principal) -> list[Voice]:
        """The model's first, its default before the others; then the store's, by name. Raises Forbidden."""
        _may_look(principal)
        listed = [Voice(name, info.language, info.description, Origin.MODEL) for name, info in self._shipped.items()]
        if self._catalogue is not None:
            stored = await asyncio.to_thread(self._catalogue.list, principal.owner)
            listed += [_voice(each, principal) for each in stored if each.name not in self._shipped]
        return [voice for voice in listed if _seen(voice, principal)]

    async def get(self, principal: Principal, name: str) -> Voice:
        """Raises UnknownVoice, Forbidden."""
        _may_look(principal)
        voice: Voice | None = None
        if (info := self._shipped.get(name)) is not None:
            voice = Voice(name, info.language, info.description, Origin.MODEL)
        elif self._catalogue is not None:
            with suppress(UnknownVoice):
                voice = _voice(await asyncio.to_thread(self._catalogue.find, name, principal.owner), principal)
        if voice is None or not _seen(voice, principal):
            raise UnknownVoice(unknown(name[:MAX_SHOWN], [each.name for each in await self.all(principal)]))
        return voice

    async def keeps(self, principal: Principal, name: str) -> bool:
        """Whether there is a stored voice of that name which the caller sees."""
        if self._catalogue is None or name in self._shipped:
            return False
        try:
            stored = await asyncio.to_thread(self._catalogue.find, name, principal.owner)
        except UnknownVoice:
            return False
        return _seen(_voice(stored, principal), principal)

    async def check(self, principal: Principal, new: NewVoice) -> None:
        """Whether `create` may succeed, known before a recording has come. Raises as that does."""
        principal.require(Grant.VOICES)
        await self._room(principal, new, self._keeping()[0])

    async def create(self, principal: Principal, new: NewVoice, audio: bytes) -> Voice:
        """Make a voice of an audio file's bytes. It is kept for good, and may be named, once this returns.

        Raises InvalidInput for what makes no voice, VoiceExists, Forbidden for one too many or without the grant,
        NoStore, StoreError, and Overloaded with a hint.
        """
        principal.require(Grant.VOICES)
        catalogue, worker = self._keeping()
        if not audio:
            raise InvalidInput("there is no recording: send an audio file's bytes, such as a WAV or FLAC file")
        if len(audio) > MAX_AUDIO_BYTES:
            raise InvalidInput(too_large(len(audio)))
        await self._room(principal, new, catalogue)
        asked = {
            "name": new.name,
            "transcript": new.transcript,
            "language": new.language or None,
            "description": new.description,
            "owner": principal.owner,
            "replace": new.replace,
        }
        making = self._making.setdefault(principal.owner, set())
        making.add(new.name)
        try:
            return _voice(StoredVoice(**await worker.ask("add", asked, audio)), principal)
        finally:
            making.discard(new.name)

    async def delete(self, principal: Principal, name: str) -> None:
        """Raises UnknownVoice, Forbidden for the model's and everybody's and without the grant, NoStore, StoreError."""
        principal.require(Grant.VOICES)
        _, worker = self._keeping()
        voice = await self.get(principal, name)
        if voice.origin is Origin.MODEL:
            raise Forbidden(f"the voice {name!r} came with the model and cannot be deleted")
        if voice.origin is Origin.SHARED:
            raise Forbidden(f"the voice {name!r} is everybody's; only who runs the service can delete it")
        await worker.ask("remove", {"name": name, "owner": principal.owner})

    def _keeping(self) -> tuple[Catalogue, Worker]:
        if self._catalogue is None or self._worker is None:
            raise NoStore(_NO_STORE)
        return self._catalogue, self._worker

    async def _room(self, principal: Principal, new: NewVoice, catalogue: Catalogue) -> None:
        if new.name in self._shipped:
            raise VoiceExists(f"the model has a voice {new.name!r}, which comes first; take another name")
        stored = await asyncio.to_thread(catalogue.list, principal.owner)
        own = {each.name for each in stored if each.owner == principal.owner}
        if new.name in own and not new.replace:
            raise VoiceExists(
                f"name: there is a voice {new.name!r} already; take another name, or set replace to true to replace it"
            )
        most = principal.most_voices
        count = len((own | self._making.get(principal.owner, set())) - {new.name})
        if most is not None and count >= most:
            raise Forbidden(f"you have {count} other voices and may have {most}; delete one first")


@asynccontextmanager
async def library(
    shipped: Mapping[str, VoiceInfo], store: Path | None, model: Path | None, source: Address | None = None
) -> AsyncIterator[Library]:
    """The voices of a model and, unless None, of the store in that folder. Leaving waits for recordings that are read.

    source: what the folder is a copy of, and voices are kept in. Raises StoreError for a folder that cannot be used.
    """
    if store is None:
        yield Library(shipped, None, None)
        return
    catalogue, worker = await asyncio.to_thread(Catalogue, store), Worker(store, model, source)
    try:
        yield Library(shipped, catalogue, worker)
    finally:
        await worker.close()
        catalogue.close()


def _may_look(principal: Principal) -> None:
    """Who speaks, and who keeps voices. Raises Forbidden."""
    if Grant.VOICES not in principal.grants:
        principal.require(Grant.SPEAK)


def _seen(voice: Voice, principal: Principal) -> bool:
    """Whoever may not speak in a voice does not see it either, unless it is their own."""
    return voice.origin is Origin.OWN or principal.may_use(voice.name)


def too_large(size: int) -> str:
    return f"the recording has {size} bytes; at most {MAX_AUDIO_BYTES} are taken, and 3 to 10 s of speech are best"


def _after(voices: list[Voice], place: str, name: str) -> Iterator[Voice]:
    """What comes behind the voice that was last shown, whether or not that is still there."""
    if place == "store":
        return (voice for voice in voices if voice.origin is not Origin.MODEL and voice.name > name)
    if place == "model":
        seen = next((number for number, voice in enumerate(voices) if voice.name == name), -1)
        return iter(voices[seen + 1 :])
    return iter(voices)


def _voice(stored: StoredVoice, principal: Principal) -> Voice:
    origin = Origin.OWN if stored.owner == principal.owner else Origin.SHARED
    return Voice(
        stored.name,
        stored.language,
        stored.description,
        origin,
        stored.seconds,
        stored.created,
        bool(stored.transcript),
    )
