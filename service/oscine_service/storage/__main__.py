"""`python -m oscine_service.storage`: the process that keeps a service's copy of shared voices up to date.

In a process of its own, because a list of ten thousand voices is not to be read beside calls. Nobody else needs to
start it. Ends when its standard input closes.
"""

import argparse
import os
import random
import sys
import threading
import time
from pathlib import Path

from oscine_engine.errors import StoreError
from oscine_service.observe import logs
from oscine_service.signals import leave_to_service
from oscine_service.storage import address, reports
from oscine_service.storage.bucket import opened
from oscine_service.storage.copy import Copy
from oscine_service.storage.reports import Report
from oscine_service.storage.shared import SharedVoices
from oscine_service.storage.watch import Watch

POLL_S = 0.5
TOLD_S = 5.0
"""The service is told at least so often that all is well."""
MOST_S = 5.0
"""Between two attempts at a source that fails."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m oscine_service.storage")
    parser.add_argument("--source", required=True)
    parser.add_argument("--copy", type=Path, required=True)
    parser.add_argument("--log-level", default="WARNING")
    parser.add_argument("--log-format", choices=["text", "json"], default="text")
    options = parser.parse_args()
    leave_to_service()
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
        return reports.TOLD_WHY
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
