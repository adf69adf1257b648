"""What docs/telephony.md says of RTP, done: FFmpeg as a telephone, curl, and an agent."""

import asyncio
import re
import shlex
import sys
from pathlib import Path

import pytest
import soundfile

from oscine_engine.checkpoint.load import Checkpoint
from oscine_engine.engine import Engine, EngineSettings
from oscine_service.config.model import SETTINGS
from oscine_service.conversation import Calls
from oscine_service.grpc.server import serving as serving_grpc
from oscine_service.http.app import application
from oscine_service.http.server import serving as serving_http
from oscine_service.limits import Limits
from oscine_service.telephony import http as all_calls
from oscine_service.telephony.rtp import http
from oscine_service.telephony.rtp.exchange import Place, exchange
from tests.service.telephony.rtp.telephones import HOST

ROOT = Path(__file__).parents[4]
PAGE = (ROOT / "docs" / "telephony.md").read_text()
COMMANDS = re.findall(r"^```bash\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def test_the_flag_that_is_named_is_there() -> None:
    program, command, flag, host = shlex.split(COMMANDS[0])
    assert (program, command, host) == ("oscine", "serve", HOST)
    assert SETTINGS["rtp_host"].flag == flag


@pytest.mark.telephony
async def test_ffmpeg_is_called_and_hears_an_agent(tmp_path: Path, checkpoint: Checkpoint) -> None:
    (agent,) = (text for text in re.findall(r"^```python\n(.*?)^```$", PAGE, re.M | re.S) if "greet" in text)
    calls, limits = Calls(), Limits()
    async with (
        Engine(checkpoint, EngineSettings(max_streams=2, utilisation=float("inf"), session=limits.session)) as engine,
        exchange(Place(HOST), calls.sinks) as rtp,
        serving_grpc(engine, HOST, 0, calls=calls, grace_s=0) as speech,
        serving_http(
            application(engine, limits, calls, routes=[*all_calls.routes(calls), *http.routes(rtp)]), HOST, 0, grace_s=0
        ) as address,
    ):

        def at(snippet: str) -> str:
            return snippet.replace("localhost:50051", speech.address).replace("localhost:8080", address)

        offered, ended = (at(each) for each in COMMANDS[1:])
        (tmp_path / "agent.py").write_text(at(agent))
        program = f"set -e\n{offered}\n{shlex.quote(sys.executable)} agent.py\nsleep 1\n{ended}\n"
        shell = await asyncio.create_subprocess_exec(
            *("bash", "-c", program),
            cwd=tmp_path,
            env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT / "clients" / "python")},
            stdout=asyncio.subprocess.PIPE,
        )
        out, _ = await asyncio.wait_for(shell.communicate(), 120)
        print(out.decode())
        assert shell.returncode == 0
    assert b"m=audio" in out and b"all of it was heard" in out and b'"deleted":true' in out
    heard, rate = soundfile.read(tmp_path / "heard.wav")
    assert rate == 8000 and len(heard) > 8000 and abs(heard).max() > 0.01
