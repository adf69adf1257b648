"""When to look at the source: a small object that tells of changes twice a second, all records now and then."""

import logging
import random
import time
from concurrent.futures import Future, ThreadPoolExecutor, wait

from oscine_engine.errors import StoreError
from oscine_service.storage.copy import Copy
from oscine_service.storage.mirror import Looked, Mirror
from oscine_service.storage.reports import Report
from oscine_service.storage.shared import SharedVoices

log = logging.getLogger(__name__)

ALL_S = 30.0
"""All records are looked through so often, whatever was told: a writer may have been killed before it told."""
AGAIN_S = 5.0
"""Likewise while there are voices that could not be copied."""
TIDY_S = 3600.0


class Watch:
    """`once` does what is due and says how it went.

    A voice that was told of is renewed at once. After that all are looked through, since one sign overwrites another:
    beside the next calls, for with ten thousand voices it takes seconds. Only the first look is waited for.
    """

    def __init__(self, shared: SharedVoices, copy: Copy) -> None:
        self._shared, self._copy = shared, copy
        self._mirror = Mirror(shared, copy)
        self._seen: str | None = None
        self._looks = ThreadPoolExecutor(1, thread_name_prefix="oscine-look")
        self._looking: Future[Looked] | None = None
        self._look_at = 0.0
        self._error: str | None = None
        """Why the last look failed, "" if it did not; None before the first has ended."""
        self._tidy_at = time.monotonic() + random.uniform(0.5, 1.0) * TIDY_S

    def once(self) -> Report:
        try:
            # Before the looks: what is changed meanwhile counts as not yet seen.
            change, whose = self._shared.last_change()
            if change != self._seen:
                if self._seen is not None and whose is not None:
                    self._mirror.renew([whose])
                self._seen, self._look_at = change, 0.0
            self._look()
            if time.monotonic() >= self._tidy_at:
                self._tidy()
                self._tidy_at = time.monotonic() + random.uniform(0.8, 1.2) * TIDY_S
        except StoreError as error:
            return self._report(error.message)
        return self._report(self._error or "")

    def _look(self) -> None:
        """Begin a look that is due, and hear how one went that has ended."""
        if self._looking is None and time.monotonic() >= self._look_at:
            # Put off before it begins: a change that comes meanwhile asks for another one.
            self._look_at = time.monotonic() + random.uniform(0.8, 1.2) * ALL_S
            self._looking = self._looks.submit(self._mirror.look)
        if self._looking is None:
            return
        if self._error is None:
            wait([self._looking])
        if not self._looking.done():
            return
        ended, self._looking = self._looking, None
        try:
            looked, self._error = ended.result(), ""
        except StoreError as error:
            self._error, self._look_at = error.message, 0.0
            return
        if looked.failed:
            self._look_at = min(self._look_at, time.monotonic() + random.uniform(0.8, 1.2) * AGAIN_S)

    def _report(self, error: str) -> Report:
        return Report(self._copy.count(), error, self._mirror.failing)

    def _tidy(self) -> None:
        """Some may only read: others delete what a crash has left behind, then."""
        self._copy.tidy()
        try:
            self._shared.tidy()
        except StoreError as error:
            log.info("the shared voice store was not tidied: %s", error)
