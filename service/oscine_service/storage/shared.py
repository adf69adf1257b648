"""Voices in a bucket, which any number of machines read and write at once.

No locks, for buckets have none. What makes it whole:

* Arrays are written first, then the record that names them: one object, which is there whole or not at all. From then
  on the voice is there, whatever happens to who wrote it.
* A name is given once because the record is written only if there is none; the bucket decides who was first.
* To delete goes the other way round. What a crash leaves behind are arrays that no record names, which `tidy` deletes
  when they are an hour old.
* After each change `changed` is written anew, so that others learn of it by reading one small object. They look through
  all records now and then, too: of a writer that was killed between two steps, nothing stays unnoticed.
* Readers check what came against the digest in the record.
"""

import logging
import random
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

from oscine_engine.errors import StoreError, UnknownVoice, VoiceExists
from oscine_engine.voices.catalogue import StoredVoice, check_name, unknown
from oscine_engine.voices.shelf import digest_of, taken
from oscine_service.storage import record as records
from oscine_service.storage.bucket import Bucket, Found, Taken
from oscine_service.storage.record import Id, Record

log = logging.getLogger(__name__)

ABANDONED_S = 3600.0
"""Arrays without a record are rubbish when they are so old. Clocks of machines may differ by less than half of it."""
READERS = 8
_TURNS = 5


class SharedVoices:
    """What lies in a bucket. May be used from several threads. Each call raises StoreError where the bucket fails."""

    def __init__(self, bucket: Bucket) -> None:
        self._bucket = bucket

    def add(self, stored: StoredVoice, packed: bytes, *, replace_it: bool = False) -> str:
        """Keep a voice for good: it is there, whatever happens, once this returns the tag of its record.

        Raises VoiceExists, unless `replace_it`, for a name that the owner has given already. After a StoreError the
        voice may be there or not.
        """
        check_name(stored.name)
        key, began = records.key(stored.owner, stored.name), time.monotonic()
        before = self._bucket.read(key)
        if before is not None and not replace_it:
            raise VoiceExists(taken(stored.name))
        new = records.new(stored)
        self._bucket.write(new.arrays, packed)
        if time.monotonic() - began > ABANDONED_S / 2:
            raise StoreError("the shared voice store took too long to take the voice; try again")
        try:
            tag = self._bucket.write(key, records.packed(new), new=before is None and not replace_it)
        except Taken:
            self._bucket.delete(new.arrays)
            raise VoiceExists(taken(stored.name)) from None
        self._discard(before, stored.owner, stored.name)
        self._tell(stored.owner, stored.name)
        return tag

    def remove(self, name: str, owner: str = "") -> None:
        """Delete a voice of this owner, and its arrays. Raises UnknownVoice."""
        key = records.key(owner, name)
        before = self._bucket.read(key)
        if before is None:
            raise UnknownVoice(unknown(name))
        self._bucket.delete(key)
        self._discard(before, owner, name)
        self._tell(owner, name)

    def read(self, owner: str, name: str) -> tuple[Record, str] | None:
        """This owner's own voice, and the tag of its record; None if there is none."""
        found = self._bucket.read(records.key(owner, name))
        return None if found is None else (records.unpacked(found.data, owner, name), found.tag)

    def find(self, name: str, owner: str = "") -> StoredVoice:
        """The voice `name` as `owner` sees it. Raises UnknownVoice."""
        check_name(name)
        for whose in dict.fromkeys((owner, "")):
            if (found := self.read(whose, name)) is not None:
                return found[0].voice
        raise UnknownVoice(unknown(name))

    def list(self, owner: str = "") -> list[StoredVoice]:
        """What `owner` sees, by name. Of a damaged record the log tells."""
        ids = [each for each in self.listed() if each[0] in ("", owner)]
        with ThreadPoolExecutor(READERS) as readers:
            found = [voice for voice in readers.map(self._voice, ids) if voice is not None]
        seen = {voice.name: voice for voice in sorted(found, key=lambda voice: voice.owner == owner)}
        return [seen[name] for name in sorted(seen)]

    def packed(self, record: Record) -> bytes | None:
        """The arrays of a voice, whole; None if it was replaced or deleted since."""
        found = self._bucket.read(record.arrays)
        if found is None:
            return None
        if digest_of(found.data) != record.voice.digest:
            raise StoreError(f"the arrays of the shared voice {record.voice.name!r} are damaged; register it again")
        return found.data

    def arrays(self, name: str, owner: str = "") -> tuple[StoredVoice, bytes]:
        """The voice `name` as `owner` sees it. Raises UnknownVoice, and StoreError for one whose arrays are gone."""
        for _ in range(_TURNS):
            stored = self.find(name, owner)
            found = self.read(stored.owner, name)
            if found is not None and (packed := self.packed(found[0])) is not None:
                return found[0].voice, packed
            time.sleep(random.uniform(0.05, 0.1))
        raise StoreError(f"the arrays of the shared voice {name!r} are gone; register it again")

    def listed(self) -> Mapping[Id, str]:
        """The tag of each record."""
        found = ((records.id_of(key), seen.tag) for key, seen in self._bucket.list(records.VOICES).items())
        return {each: tag for each, tag in found if each is not None}

    def last_change(self) -> tuple[str, Id | None]:
        """What is another after every change, "" before the first; and whose voice that was of, if it is known."""
        found = self._bucket.read(records.CHANGED)
        return ("", None) if found is None else (found.data.decode(errors="replace"), records.changed(found.data))

    def require(self, known: int) -> None:
        """Raises StoreError if nothing was ever written here, though that many voices are known from here.

        A folder whose file system is not mounted looks like a store that all was deleted from, and is not one.
        """
        if known and not self.last_change()[0]:
            raise StoreError(
                f"the shared voice store is empty, though {known} of its voices are known here: is it mounted, and the "
                "right one? If all of them were deleted on purpose, delete this machine's copy, too"
            )

    def tidy(self) -> int:
        """Delete arrays that no record names, left behind by a crash; tells how many there were."""
        # Before the records: arrays that are written now have theirs later.
        packed, limit, left = self._bucket.list(records.ARRAYS), time.time() - ABANDONED_S, 0
        listed = self.listed()
        for key, seen in packed.items():
            owner_and_name = records.id_of(key)
            if owner_and_name is None or seen.modified > limit:
                continue
            try:
                found = self.read(*owner_and_name) if owner_and_name in listed else None
            except StoreError as error:
                log.warning("arrays of a shared voice are kept: %s", error)
                continue
            if found is None or found[0].arrays != key:
                self._bucket.delete(key)
                left += 1
        return left

    def close(self) -> None:
        self._bucket.close()

    def _voice(self, each: Id) -> StoredVoice | None:
        found = self._bucket.read(records.key(*each))
        try:
            return None if found is None else records.unpacked(found.data, *each).voice
        except StoreError as error:
            log.warning("a shared voice is left out: %s", error)
            return None

    def _discard(self, before: Found | None, owner: str, name: str) -> None:
        """Delete the arrays of a record that is no more."""
        if before is None:
            return
        try:
            self._bucket.delete(records.unpacked(before.data, owner, name).arrays)
        except StoreError as error:
            log.warning("arrays of a shared voice are left to be tidied: %s", error)

    def _tell(self, owner: str, name: str) -> None:
        self._bucket.write(records.CHANGED, records.change(owner, name))
