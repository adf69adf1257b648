"""The machine: libraries, processors, memory, files."""

import importlib.metadata
import importlib.util
import os
import platform
import resource
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from oscine_codecs import opus
from oscine_codecs.errors import CodecMissing
from oscine_engine.errors import OscineError
from oscine_service.config.model import Settings
from oscine_service.doctor.finding import Finding, advice, fault, good
from oscine_service.observe.memory import tightest
from oscine_service.unit.attempt import LONGEST_FOLDER

LEAST_FILES = 1024
"""A call takes a socket or two, an engine process some dozens."""
WORKING_BYTES = 1 << 30
"""Of an engine process besides the weights: libraries, dictionaries and pages."""
_QUOTA = Path("/sys/fs/cgroup/cpu.max")


def python(settings: Settings) -> Iterator[Finding]:
    yield good("python", f"{platform.python_version()}, oscine {importlib.metadata.version('oscine')}")
    if sys.platform != "linux":
        yield advice("system", f"{sys.platform} is not tried; Linux is", "run it on Linux, or in a container")
    if importlib.util.find_spec("uvloop") is None:
        yield advice("uvloop", "is not installed: packets are sent later under load", "pip install uvloop")


def codecs(settings: Settings) -> Iterator[Finding]:
    try:
        opus.require()
    except CodecMissing:
        yield fault("opus", "the library is missing: no Opus can be sent", "apt-get install libopus0")
    else:
        yield good("opus", "the library is there")
    if shutil.which("ffmpeg") is None:
        yield advice(
            "ffmpeg", "is not installed: no AAC is written, no M4A or WebM recording is read", "apt-get install ffmpeg"
        )
    else:
        yield good("ffmpeg", "is installed")


def processors(settings: Settings) -> Iterator[Finding]:
    count = len(os.sched_getaffinity(0))
    share = _share()
    available = min(count, share) if share is not None else count
    if available < 2:
        yield advice(
            "cpu",
            f"{available:g} cores: the service and its engine get in each other's way",
            "give it two cores or more",
        )
    else:
        yield good("cpu", f"{available:g} cores")


def _share() -> float | None:
    """Cores that the control group is held to."""
    try:
        quota, period = _QUOTA.read_text().split()
    except (OSError, ValueError):
        return None
    return None if quota == "max" else int(quota) / int(period)


def memory(settings: Settings) -> Iterator[Finding]:
    from oscine_engine.checkpoint import layout

    try:
        files = layout.find(settings.engine.model)
    except OscineError:
        return  # told by what looks at the model
    weights = sum(path.stat().st_size for path in {files.lm, files.flow, files.vocoder})
    wanted = (weights + WORKING_BYTES) * (len(settings.engine.device) if settings.engine.device[0] == "cpu" else 1)
    found = tightest()
    if found is None:
        return
    free = found.free
    told = f"{free / 2**30:.1f} GiB free, an engine needs about {wanted / 2**30:.1f}"
    if free < wanted:
        yield fault("memory", told, "end something else, or give it more memory")
    else:
        yield good("memory", told)


def open_files(settings: Settings) -> Iterator[Finding]:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < LEAST_FILES:
        yield advice("files", f"{soft} may be open at a time, which is few for many calls", f"ulimit -n {LEAST_FILES}")
    else:
        yield good("files", f"{'any number' if soft == resource.RLIM_INFINITY else soft} may be open at a time")


def sockets(settings: Settings) -> Iterator[Finding]:
    """Whether the socket between the two processes can be made."""
    if settings.server.in_process:
        return
    parent = tempfile.gettempdir()
    try:
        place = parent if len(parent) <= LONGEST_FOLDER else "/tmp"
        with tempfile.TemporaryDirectory(dir=place) as folder, socket.socket(socket.AF_UNIX) as made:
            made.bind(f"{folder}/engine")
    except OSError as error:
        yield fault(
            "sockets", f"none can be made in {parent}: {error.strerror}", "set TMPDIR to a folder of a local disk"
        )
    else:
        yield good("sockets", f"can be made in {parent}")


def devices(settings: Settings) -> Iterator[Finding]:
    import torch

    wanted = settings.engine.device
    if wanted[0] == "cpu":
        yield good("torch", f"{torch.__version__}, computing on the CPU")
        if _graphics_card():
            yield advice("gpu", "there is one, and it is not used", "--device cuda, or OSCINE_DEVICE=cuda")
        return
    if torch.version.cuda is None:
        yield fault(
            "torch", f"{torch.__version__} has no CUDA", "install a CUDA build: pip install --force-reinstall torch"
        )
        return
    if not torch.cuda.is_available():
        seen = os.environ.get("CUDA_VISIBLE_DEVICES")
        hidden = f"; CUDA_VISIBLE_DEVICES is {seen!r}" if seen is not None else ""
        yield fault(
            "gpu", f"torch {torch.__version__} finds none{hidden}", "see what nvidia-smi says: driver, or container"
        )
        return
    for name in wanted:
        index = int(name.partition(":")[2] or 0)
        if index >= (count := torch.cuda.device_count()):
            yield fault("gpu", f"{name} is not there: there are {count}", "nvidia-smi -L lists them")
            continue
        about = torch.cuda.get_device_properties(index)
        free, _ = torch.cuda.mem_get_info(index)
        told = f"{name} is {about.name}, capability {about.major}.{about.minor}, {free / 2**30:.0f} GiB free"
        if about.major < 8:
            yield advice("gpu", f"{told}: none below 8.0 has been tried", "use one of the Ampere generation or later")
        else:
            yield good("gpu", told)
    if importlib.util.find_spec("triton") is None:
        yield fault("triton", "is not installed: a GPU computes with it", "pip install 'oscine[gpu]'")


def _graphics_card() -> bool:
    program = shutil.which("nvidia-smi")
    if program is None:
        return False
    try:
        listed = subprocess.run([program, "-L"], capture_output=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return listed.returncode == 0 and b"GPU" in listed.stdout
