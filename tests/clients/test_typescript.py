"""The TypeScript client: compiled, and run by Node against a real service."""

import asyncio
import json
import os
import shutil
import subprocess
import sys
import wave
from pathlib import Path

import pytest

from oscine_engine.checkpoint.load import Checkpoint
from tests.clients.conftest import running
from tests.service.recordings import recording

ROOT = Path(__file__).parents[2]
PARTS = ("clients/typescript", "service/oscine_service/browser/player")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("npm") is None, reason="needs Node"),
]


def built(folder: Path) -> Path:
    """A compiled copy, beside one of the player that it takes in."""
    for part in PARTS:
        shutil.copytree(ROOT / part, folder / part, ignore=shutil.ignore_patterns("node_modules", "dist"))
    copy = folder / PARTS[0]
    for command in ("install --silent --no-audit --no-fund", "run build --silent"):
        subprocess.run(["npm", *command.split()], cwd=copy, check=True)
    # An example for pages is only compiled here, against the types of the package itself.
    options = {"extends": "./tsconfig.json", "include": ["examples/page.ts"]}
    compiler = {"noEmit": True, "rootDir": "."}
    (copy / "tsconfig.examples.json").write_text(json.dumps({**options, "compilerOptions": compiler}))
    subprocess.run(["npx", "tsc", "-p", "tsconfig.examples.json"], cwd=copy, check=True)
    return copy


async def test_it_compiles_and_its_own_tests_and_example_pass(checkpoint: Checkpoint, tmp_path: Path) -> None:
    client = await asyncio.to_thread(built, tmp_path)
    path = tmp_path / "anna.wav"
    path.write_bytes(recording())
    async with running(checkpoint, tmp_path / "voices") as service:
        url = f"ws://{service.http}"
        tests = await asyncio.create_subprocess_exec(
            *("node", "--experimental-websocket", "--no-warnings", "--test", "test/"),
            cwd=client,
            env={**os.environ, "OSCINE_URL": url, "OSCINE_RECORDING": str(path)},
            stdout=asyncio.subprocess.PIPE,
        )
        said, _ = await tests.communicate()
        assert tests.returncode == 0, said.decode()
        await service.idle()

        model = (
            "import time\nfor word in 'It will rain. ', 'So we stay.': print(word, end='', flush=True); time.sleep(.1)"
        )
        command = (
            f'{sys.executable} -c "$MODEL" | node --experimental-websocket --no-warnings examples/agent.mjs '
            f"--server {url} -o {tmp_path}/speech.wav"
        )
        example = await asyncio.create_subprocess_shell(
            command,
            cwd=client,
            env={**os.environ, "MODEL": model},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        output, errors = await example.communicate()
    assert (example.returncode, output) == (0, b"It will rain. So we stay."), errors.decode()
    with wave.open(str(tmp_path / "speech.wav")) as file:
        assert file.getframerate() == 24000 and file.getnframes() > 10_000
