"""A Ray of its own with Serve on it, and the replicas that run there."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import ray
from ray import serve
from ray.serve.config import gRPCOptions

from bench.fleet.unit import SECONDS

GRPC, HTTP = "127.0.0.1:9000", "127.0.0.1:8000"
SERVICES = "oscine_service.ray_serve.proxy:add_services"
PATIENCE_S, COMING_UP_S = 300.0, 60.0
_TITLE = b"ray::ServeReplica:"


# Fixed, which nobody else has in a network of its own: Ray waits 15 s for its agents to tell others, and then ends.
_PORTS = {"port": 6379, "dashboard-agent-listen-port": 6380, "dashboard-agent-grpc-port": 6381}
_PORTS |= {"runtime-env-agent-port": 6382, "metrics-export-port": 6383}
# Cores are counted, not had: replicas ask for shares of them, and wait for each other otherwise.
_HEAD = ("start", "--head", "--block", "--num-cpus=8", "--node-ip-address=127.0.0.1", "--include-dashboard=false")


@contextmanager
def cluster() -> Iterator[None]:
    """Until the block is left. Raises ConnectionError where Ray does not come up."""
    with ExitStack() as stack:
        for last in (False, False, True):
            try:
                stack.enter_context(_head())
                break
            except ConnectionError:
                if last:
                    raise
        serve.start(grpc_options=gRPCOptions(port=9000, grpc_servicer_functions=[SERVICES]))
        yield
        serve.shutdown()


@contextmanager
def _head() -> Iterator[None]:
    """A Ray that this process is connected to. Raises ConnectionError: on a busy machine its agents may be too slow for
    it, and then it never comes up."""
    command = [str(Path(sys.executable).parent / "ray"), *_HEAD, *(f"--{name}={port}" for name, port in _PORTS.items())]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as head:
        try:
            _connect(time.monotonic() + COMING_UP_S)
            yield
        finally:
            ray.shutdown()
            head.terminate()  # which ends what it started


def _connect(latest: float) -> None:
    while True:
        try:
            ray.init(address=f"127.0.0.1:{_PORTS['port']}", _node_ip_address="127.0.0.1", log_to_driver=False)
            return
        except (ConnectionError, RuntimeError, ValueError) as error:
            if time.monotonic() > latest:
                raise ConnectionError(f"Ray does not come up: {error}") from error
            time.sleep(1.0)


def deploy(
    unit: serve.Deployment, seconds: float, environment: Mapping[str, str] | None = None, **options: Any
) -> None:
    """In the place of what ran before; returns once all replicas are there. seconds: that a replay's streams last."""
    told = {SECONDS: str(seconds), **(environment or {})}
    actor = {"num_cpus": 0.5, "runtime_env": {"env_vars": told}}
    more = {"max_ongoing_requests": 1000, "graceful_shutdown_timeout_s": 60, "graceful_shutdown_wait_loop_s": 0.5}
    application = unit.options(ray_actor_options=actor, **{**more, **options}).bind()
    serve.run(application, name="oscine", route_prefix="/")


def replicas() -> set[int]:
    """Process ids of those that live. All that are in this network namespace are this cluster's."""
    here = os.readlink("/proc/self/ns/net")
    return {pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if _is_replica(pid, here)}


def _is_replica(pid: int, namespace: str) -> bool:
    try:
        title = Path(f"/proc/{pid}/cmdline").read_bytes()
        return title.startswith(_TITLE) and os.readlink(f"/proc/{pid}/ns/net") == namespace
    except OSError:  # it has ended meanwhile
        return False


def running() -> int:
    """Replicas that Serve counts as running."""
    application = serve.status().applications.get("oscine")
    if application is None or "unit" not in application.deployments:
        return 0
    return application.deployments["unit"].replica_states.get("RUNNING", 0)


async def until(true: Callable[[], bool]) -> float:
    """Seconds. Raises TimeoutError."""
    began = time.monotonic()
    async with asyncio.timeout(PATIENCE_S):
        while not await asyncio.to_thread(true):
            await asyncio.sleep(0.1)
    return time.monotonic() - began
