"""The service as it is run, in a process of its own, and what it tells of itself."""

import re
import ssl
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

COMMAND = (Path(sys.executable).with_name("oscine"), "serve", "--port", "0", "--http-port", "0")
SETTINGS = ("--utilisation", "inf", "--max-streams", "4", "--write-timeout", "10", "--hang-timeout", "120")
"""Four calls at a time and an engine that may be slow, whatever else runs on this machine; and a client that takes
nothing is given up soon."""
LISTENING = re.compile(r" on (127\.0\.0\.1:\d+)")


@dataclass(frozen=True)
class Service:
    """grpc, http: addresses. authority: who signed its certificate, if it speaks TLS."""

    grpc: str
    http: str
    authority: Path | None = None

    def figures(self) -> dict[str, float]:
        """Its metrics, by their names and labels."""
        handlers: list[urllib.request.BaseHandler] = [urllib.request.ProxyHandler({})]
        if self.authority is not None:
            trusting = ssl.create_default_context(cafile=self.authority)
            handlers.append(urllib.request.HTTPSHandler(context=trusting))
        scheme = "http" if self.authority is None else "https"
        opener = urllib.request.build_opener(*handlers)
        with opener.open(f"{scheme}://{self.http}/metrics", timeout=10) as page:
            lines = page.read().decode().splitlines()
        return {key: float(number) for key, _, number in (each.rpartition(" ") for each in lines if each[:1] != "#")}

    def open(self) -> int:
        """Calls that speak, and streams that the engine holds for any."""
        found = self.figures()
        return round(sum(v for k, v in found.items() if k.startswith(("oscine_calls_open", "oscine_engine_streams{"))))

    def made_s(self) -> float:
        """Seconds of speech that the engine has made."""
        return sum(v for k, v in self.figures().items() if k.startswith("oscine_engine_audio_seconds_total"))


def within(patience_s: float, true: Callable[[], bool]) -> bool:
    """Whether it becomes true in time."""
    end = time.monotonic() + patience_s
    while not true():
        if time.monotonic() > end:
            return False
        time.sleep(0.2)
    return True


@contextmanager
def serving(folder: Path, *more: "str | Path", authority: Path | None = None) -> Iterator[Service]:
    """Until the block is left. What it writes goes to `folder`, and is in the error where it does not come up."""
    output, errors = folder / "service.out", folder / "service.err"
    with output.open("w") as out, errors.open("w") as err:
        process = subprocess.Popen((*COMMAND, *SETTINGS, *more), stdin=subprocess.DEVNULL, stdout=out, stderr=err)
    try:
        up = within(300, lambda: process.poll() is not None or len(LISTENING.findall(output.read_text())) == 2)
        assert up and process.poll() is None, f"the service did not come up: {errors.read_text()}"
        grpc, http = LISTENING.findall(output.read_text())
        yield Service(grpc, http, authority)
        assert process.poll() is None, f"the service has ended: {errors.read_text()}"
    finally:
        process.terminate()
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
