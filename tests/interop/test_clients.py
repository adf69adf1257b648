"""Clients that others wrote, as they are published, against the service as it is run.

Each speaks two turns, which a recogniser must understand; tells word times where it has them; breaks off a long text in
its own way and speaks on; and then vanishes in the middle of another, without a word.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from bench.asr import Recogniser
from tests.interop.judging import timed, understood
from tests.interop.performer import Heard, performing
from tests.interop.rows import ROWS, Row
from tests.interop.service import Service, within
from tests.interop.table import Findings, Results
from tests.interop.texts import LONG, LONG_S, TURNS

pytestmark = pytest.mark.interop

FREE_S = 60.0
"""Until nothing is left of a client that vanished. Pings tell, a stalled write (10 s here), or HTTP/2's keep-alive."""


@pytest.mark.parametrize("row", ROWS, ids=[row.name for row in ROWS])
def test_client(
    row: Row,
    request: pytest.FixtureRequest,
    capfd: pytest.CaptureFixture[str],
    recognisers: dict[str, Recogniser],
    results: Results,
    tmp_path: Path,
) -> None:
    overtls = row.environment == "elevenlabs"
    service: Service = request.getfixturevalue("secure" if overtls else "service")
    found = results[row] = Findings()
    asked = {"kind": row.kind, "grpc": service.grpc, "http": service.http, "voice": row.voice}
    if overtls:
        asked["authority"] = str(request.getfixturevalue("authority"))

    def check(column: str, say: Callable[[], None]) -> None:
        cause = dict(row.faults).get(column)
        try:
            say()
        except AssertionError as error:
            found.wrong[column] = cause or str(error).splitlines()[0]
            if cause is None:
                failures.append(f"{column}: {error}")
        else:
            found.wrong[column] = None
            if cause is not None:
                failures.append(f"{column}: this works now; take its fault out of rows.py")
        # A run takes long: tell what is known.
        with capfd.disabled():
            print(f"{row.name}, {column}: {found.wrong[column] or 'yes'}", flush=True)

    failures: list[str] = []
    recogniser, (*turns, last), long = recognisers[row.language], TURNS[row.language], LONG[row.language]
    with performing(row.environment, row.script, tmp_path, **asked) as client:
        heard: list[Heard] = []

        def speech() -> None:
            for text in turns:
                heard.append(client.speak(text))
                understood(heard[-1], text, recogniser)

        def times() -> None:
            assert len(heard) == len(turns), "nothing was heard that could have times"
            for each, text in zip(heard, turns, strict=True):
                timed(each, text)

        def interruption() -> None:
            made_s = service.made_s()
            after = client.interrupt(long, last)
            understood(after, last, recogniser)
            freed(service)
            stopped(service.made_s() - made_s - after.seconds)
            found.notes["interruption"] = row.way

        def stopped(worked_s: float) -> None:
            assert worked_s < LONG_S[row.language] / 2, f"it went on for {worked_s:.0f} s of speech that nobody hears"

        def abandonment() -> None:
            made_s = service.made_s()
            client.vanish(long)
            freed(service)
            stopped(service.made_s() - made_s)

        check("speech", speech)
        if row.words:
            check("word times", times)
        check("interruption", interruption)
        check("abandonment", abandonment)
    assert not failures, "\n".join(failures)


def freed(service: Service) -> None:
    assert within(FREE_S, lambda: service.open() == 0), f"after {FREE_S:g} s the service still holds {service.open()}"
