"""Looking at a service from outside: its metrics, its processes, and waiting for what only looking again shows."""

from __future__ import annotations

import asyncio
import time
import urllib.request
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

POLL_S = 0.05


async def until(true: Callable[[], Awaitable[bool]], patience_s: float, what: str) -> float:
    """Seconds until it became true. Raises TimeoutError that says what did not happen."""
    began = time.monotonic()
    try:
        async with asyncio.timeout(patience_s):
            while not await true():
                await asyncio.sleep(POLL_S)
    except TimeoutError as error:
        raise TimeoutError(f"{what} did not happen within {patience_s:g} s") from error
    return time.monotonic() - began


async def metrics(http: str, key: str | None = None) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """Samples of a service's page of metrics, by name and labels."""
    page = await asyncio.to_thread(fetched, f"http://{http}/metrics", key)
    families = text_string_to_metric_families(page.decode())
    return {(each.name, frozenset(each.labels.items())): each.value for family in families for each in family.samples}


async def total(http: str, name: str, labels: Mapping[str, str] | None = None, key: str | None = None) -> float:
    """The sum of what a metric says under these labels; 0 where it says nothing."""
    asked = frozenset((labels or {}).items())
    return sum(value for (each, found), value in (await metrics(http, key)).items() if each == name and asked <= found)


def fetched(url: str, key: str | None = None, body: bytes | None = None) -> bytes:
    """Raises urllib.error.HTTPError, and OSError."""
    headers = {} if key is None else {"Authorization": f"Bearer {key}"}
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(urllib.request.Request(url, body, headers), timeout=30) as answer:
        data: bytes = answer.read()
    return data


def alive(pid: int) -> bool:
    """Not of one that has ended and only waits for somebody to ask how."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False
