"""Prometheus metrics of what a service needs beside its engines: memory, a disk for voices, a certificate, keys."""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from oscine_service.observe import memory
from oscine_service.security.keys import KeyBook
from oscine_service.security.tls import Tls


class MachineCollector(Collector):
    """Looks when it is asked. store: a folder on the disk that voices are kept on. What a service does not have, or the
    system does not tell, has no metric."""

    def __init__(self, *, store: Path | None, tls: Tls | None, keys: KeyBook | None) -> None:
        self._store, self._tls, self._keys = store, tls, keys

    def describe(self) -> Iterable[Metric]:
        """Nothing: to look for names would be to look at everything."""
        return ()

    def collect(self) -> Iterator[Metric]:
        if (found := memory.tightest()) is not None:
            yield _gauge("oscine_memory_limit_bytes", "Memory of the machine or its control group", found.limit)
            yield _gauge("oscine_memory_used_bytes", "Of it, what cannot be given up for something else", found.used)
        if self._store is not None:
            yield from _disk(self._store)
        if self._tls is not None:
            yield _gauge(
                "oscine_certificate_expires_timestamp_seconds",
                "When the certificate expires that new connections get; 0 for one that was not valid when it was read",
                self._tls.valid_until or 0.0,
            )
        if self._keys is not None:
            self._keys.look()
            yield _gauge(
                "oscine_keys_readable", "Whether the file of keys could be read when it changed", self._keys.readable
            )


def _disk(folder: Path) -> Iterator[Metric]:
    try:
        disk = os.statvfs(folder)
    except OSError:
        # A disk that has gone is no reason to tell nothing of the rest; that its metrics end says it.
        return
    yield _gauge("oscine_store_size_bytes", "Size of the disk that voices are kept on", disk.f_blocks * disk.f_frsize)
    yield _gauge("oscine_store_free_bytes", "Of it, what is left for the service", disk.f_bavail * disk.f_frsize)


def _gauge(name: str, what: str, value: float) -> Metric:
    family = GaugeMetricFamily(name, what, labels=())
    family.add_metric((), float(value))
    return family
