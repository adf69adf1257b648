"""Bringing this machine's copy up to date with what is shared."""

import logging
import threading
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from oscine_engine.errors import StoreError
from oscine_service.storage.copy import Copy
from oscine_service.storage.record import Id
from oscine_service.storage.shared import READERS, SharedVoices

log = logging.getLogger(__name__)

_TURNS = 10
"""A voice that is changed while it is fetched is fetched again so often, and then with the next look."""
_APART = 64
"""Locks that voices share by chance."""


@dataclass(frozen=True, slots=True)
class Looked:
    """What a look at the source came to: voices that were copied or dropped, and those that could not be."""

    changed: int
    failed: int


class Mirror:
    """A source and its copy here. May be used from several threads."""

    def __init__(self, shared: SharedVoices, copy: Copy) -> None:
        self._shared, self._copy = shared, copy
        self._bad: dict[Id, str] = {}
        """Why voices could not be copied: told once, and tried again and again."""
        self._turns = tuple(threading.Lock() for _ in range(_APART))

    @property
    def failing(self) -> int:
        """Voices that could not be copied when that was last tried."""
        return len(self._bad)

    def look(self) -> Looked:
        """Compare all, and copy what differs. Raises StoreError where the source cannot be read at all, or is
        gone."""
        known, listed = self._copy.tags(), self._shared.listed()
        if not listed:
            self._shared.require(len(known))
        for gone in self._bad.copy().keys() - known.keys() - listed.keys():
            self._bad.pop(gone, None)
        differing = [each for each in known.keys() | listed.keys() if known.get(each) != listed.get(each)]
        looked = self.renew(sorted(differing))
        if not self._copy.complete:
            self._copy.completed()
        return looked

    def renew(self, ids: Iterable[Id]) -> Looked:
        """Copy these as they are now. A voice that cannot be copied is logged, and keeps no other one from it."""
        with ThreadPoolExecutor(READERS) as fetching:
            done = list(fetching.map(self._in_turn, ids))
        return Looked(sum(done), len(done) - sum(done))

    def _in_turn(self, each: Id) -> bool:
        """Who fetched a voice first writes it first, so that the newer one stays."""
        with self._turns[hash(each) % _APART]:
            return self._renewed(each)

    def _renewed(self, each: Id) -> bool:
        owner, name = each
        try:
            if any(self._fetched(owner, name) for _ in range(_TURNS)):
                self._bad.pop(each, None)
                return True
            reason = f"{name!r} changes all the time, or its arrays are gone"
        except StoreError as error:
            reason = str(error)
        if self._bad.get(each) != reason:
            self._bad[each] = reason
            log.warning("a shared voice cannot be copied: %s", reason)
        return False

    def _fetched(self, owner: str, name: str) -> bool:
        """Whether the copy is now as the source was at some moment since this was called."""
        at = self._copy.writes
        found = self._shared.read(owner, name)
        if found is None:
            return self._copy.drop(owner, name, fetched_at=at)
        record, tag = found
        packed = None if self._copy.has(record.voice.digest) else self._shared.packed(record)
        # None of a voice that is not here: replaced or deleted meanwhile, or the file went as we looked.
        return self._copy.take(record.voice, packed, tag, fetched_at=at)
