"""`python -m oscine_service.storage`: the process that keeps a service's copy of shared voices up to date.

It looks twice a second whether anything was changed, which reads one small object, and through all records now and
then: in a process of its own, because a list of ten thousand voices is not to be read beside calls. Nobody else needs
to start it. Ends when its standard input closes.
"""

import argparse
import logging
import os
import random
import signal
import sys
import threading
import time
from pathlib import Path

from oscine_engine.errors import StoreError
from oscine_service.observe import logs
from oscine_service.storage import address, reports
from oscine_service.storage.bucket import opened
from oscine_service.storage.copy import Copy
from oscine_service.storage.mirror import Mirror
from oscine_service.storage.reports import Report
from oscine_service.storage.shared import SharedVoices

log = logging.getLogger("oscine_service.storage")

POLL_S = 0.5
ALL_S = 30.0
"""All records are looked through so often, whatever was told: a writer may have been killed before it told."""
AGAIN_S = 5.0
"""Likewise while there are voices that could not be copied."""
TIDY_S = 3600.0
TOLD_S = 5.0
"""The service is told at least so often that all is well."""
MOST_S = 5.0
"""Between two attempts at a source that fails."""


class Watch:
    """One look after the other. `once` does what is due and says how it went."""

    def __init__(self, shared: SharedVoices, copy: Copy) -> None:
        self._shared, self._copy = shared, copy
        self._mirror = Mirror(shared, copy)
        self._seen: str | None = None
        self._all_at = 0.0
        self._tidy_at = time.monotonic() + random.uniform(0.5, 1.0) * TIDY_S

    def once(self) -> Report:
        try:
            # Before the looks: what is changed meanwhile counts as not yet seen.
            change, whose = self._shared.last_change()
            now = time.monotonic()
            if change != self._seen or now >= self._all_at:
                if self._seen is not None and change != self._seen and whose is not None:
                    # Sooner than a look through all: others may have changed something too, but seldom.
                    self._mirror.renew([whose])
                looked = self._mirror.look()
                self._seen = change
                self._all_at = now + random.uniform(0.8, 1.2) * (AGAIN_S if looked.failed else ALL_S)
            if now >= self._tidy_at:
                self._tidy()
                self._tidy_at = now + random.uniform(0.8, 1.2) * TIDY_S
        except StoreError as error:
            return Report(self._copy.count(), error.message, self._mirror.failing)
        return Report(self._copy.count(), failing=self._mirror.failing)

    def _tidy(self) -> None:
        """Some may only read: others delete what a crash has left behind, then."""
        self._copy.tidy()
        try:
            self._shared.tidy()
        except StoreError as error:
            log.info("the shared voice store was not tidied: %s", error)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m oscine_service.storage")
    parser.add_argument("--source", required=True)
    parser.add_argument("--copy", type=Path, required=True)
    parser.add_argument("--log-level", default="WARNING")
    parser.add_argument("--log-format", choices=["text", "json"], default="text")
    options = parser.parse_args()
    for name in (signal.SIGINT, signal.SIGTERM):
        signal.signal(name, signal.SIG_IGN)
    threading.Thread(target=_end_with_service, name="oscine-parent", daemon=True).start()
    logs.set_up(options.log_level, options.log_format)
    # Calls come first.
    os.nice(10)
    source = address.read(options.source)
    try:
        copy = Copy(options.copy, str(source))
        copy.check()
        watch = Watch(SharedVoices(opened(source)), copy)
    except StoreError as error:
        _tell(Report(0, error.message))
        return 1
    told, told_at, wait_s = None, 0.0, POLL_S
    while True:
        report = watch.once()
        if report != told or time.monotonic() >= told_at + TOLD_S:
            _tell(report)
            told, told_at = report, time.monotonic()
        wait_s = min(2 * wait_s, MOST_S) if report.error else POLL_S
        time.sleep(random.uniform(0.8, 1.0) * wait_s)


def _tell(report: Report) -> None:
    sys.stdout.write(reports.line(report))
    sys.stdout.flush()


def _end_with_service() -> None:
    """Nothing is half done in a copy, whenever this ends."""
    while os.read(0, 4096):
        pass
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main())
