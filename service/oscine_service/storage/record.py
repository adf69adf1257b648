"""A shared voice as objects in a bucket. Pure.

    voices/=<owner>/<name>.json                   the record: all that is known of a voice, and where its arrays are
    arrays/=<owner>/<name>.<id>.safetensors       its arrays, of this record alone, never changed
    changed                                       what was done last: another content after every change

The record is the voice. Arrays are not shared between records, as files of a store on a disk are: nobody could tell,
without a lock, whether arrays are deleted at the moment at which somebody else begins to need them.
"""

import json
import re
import uuid
from dataclasses import asdict, dataclass, fields
from typing import Any
from urllib.parse import quote, unquote

from oscine_engine.errors import StoreError
from oscine_engine.voices.catalogue import NAME, StoredVoice
from oscine_service import strict_json

FORMAT = 1
VOICES, ARRAYS, CHANGED = "voices/", "arrays/", "changed"
_RECORD = re.compile(r"voices/=([^/]*)/([^/]+)\.json")
_PACKED = re.compile(r"arrays/=([^/]*)/([^/]+)\.[0-9a-f]{32}\.safetensors")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_LARGEST = 2**63 - 1
_MOST_OWNER = 240
"""Characters of an owner as it stands in a key: file names end at 255."""

Id = tuple[str, str]
"""Owner and name."""


@dataclass(frozen=True, slots=True)
class Record:
    """arrays: the key of its arrays."""

    voice: StoredVoice
    arrays: str


def new(voice: StoredVoice) -> Record:
    """With arrays of its own. Raises StoreError for an owner with too long a name."""
    return Record(voice, f"{ARRAYS}{_folder(voice.owner)}/{voice.name}.{uuid.uuid4().hex}.safetensors")


def key(owner: str, name: str) -> str:
    return f"{VOICES}{_folder(owner)}/{name}.json"


def id_of(key: str) -> Id | None:
    """Whose record, or whose arrays, have that key; None for what is neither."""
    found = _RECORD.fullmatch(key) or _PACKED.fullmatch(key)
    if found is None or not NAME.fullmatch(found[2]):
        return None
    # An owner may be written in one way alone, or what is listed would not be what is read.
    owner = unquote(found[1])
    return (owner, found[2]) if found[1].isascii() and quote(owner, safe="") == found[1] else None


def packed(record: Record) -> bytes:
    return json.dumps({"format": FORMAT, "arrays": record.arrays, **asdict(record.voice)}, ensure_ascii=False).encode()


def unpacked(data: bytes, owner: str, name: str) -> Record:
    """Raises StoreError for what is no record of that voice: whoever may write to the bucket wrote it."""
    try:
        found = strict_json.loads(data)
        if found["format"] != FORMAT:
            raise StoreError(
                f"the shared voice {name!r} was written by another version of this program (its format is "
                f"{found['format']}, {FORMAT} is expected)"
            )
        voice = StoredVoice(**{each.name: _typed(found[each.name], each.type) for each in fields(StoredVoice)})
        arrays: str = found["arrays"]
        if (voice.owner, voice.name) != (owner, name) or id_of(arrays) != (owner, name):
            raise ValueError("it is of another voice")
        if not _DIGEST.fullmatch(voice.digest):
            # It names a file.
            raise ValueError(f"{voice.digest[:80]!r} is no digest")
    except (ValueError, KeyError, TypeError) as error:
        raise StoreError(f"the record of the shared voice {name!r} is damaged ({error}); register it again") from error
    return Record(voice, arrays)


def change(owner: str, name: str) -> bytes:
    """What `changed` holds after a change of that voice: no two are the same."""
    return json.dumps({"owner": owner, "name": name, "change": uuid.uuid4().hex}).encode()


def changed(data: bytes) -> Id | None:
    """Whose voice it was; None if that cannot be told."""
    try:
        found = strict_json.loads(data)
        owner, name = _typed(found["owner"], str), _typed(found["name"], str)
    except (ValueError, KeyError, TypeError):
        return None
    return (owner, name) if NAME.fullmatch(name) else None


def _folder(owner: str) -> str:
    """ "=" so that nobody's is empty, and nobody's `.` or `..`."""
    written = "=" + quote(owner, safe="")
    if len(written) > _MOST_OWNER:
        raise StoreError(
            f"the owner {owner[:40]!r}... has too long a name for a shared voice store; give it a shorter one"
        )
    return written


def _typed(value: Any, kind: Any) -> Any:
    """kind: of a field of StoredVoice; what is no number is a text."""
    wanted: dict[Any, tuple[type, ...]] = {float: (float, int), int: (int,)}
    if isinstance(value, bool) or not isinstance(value, wanted.get(kind, (str,))):
        raise TypeError(f"{value!r} is of the wrong kind")
    if isinstance(value, str):
        value.encode()  # raises ValueError for half a surrogate pair
    elif isinstance(value, int | float) and not abs(value) <= _LARGEST:  # or no number
        raise ValueError(f"{value!r} is out of range")
    return value
