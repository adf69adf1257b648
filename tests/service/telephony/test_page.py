"""docs/telephony.md: each of its snippets does what it says."""

import argparse
import asyncio
import configparser
import json
import re
import shlex
import sys
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from xml.etree import ElementTree

import httpx
import pytest

from oscine_service.config import arguments
from oscine_service.config.model import SETTINGS
from oscine_service.conversation import Calls
from oscine_service.grpc.server import serving as serving_grpc
from oscine_service.http.app import application
from oscine_service.http.server import serving as serving_http
from oscine_service.limits import Limits
from oscine_service.telephony import audiosocket, http, jambonz
from oscine_service.telephony.carriers.asterisk import FORMATS, VARIABLE
from oscine_service.telephony.carriers.telnyx import ENCODINGS
from tests.service.telephony.lines import line
from tests.service.telephony.listeners import SCRIPTS, Script, call
from tests.service.telephony.test_audiosocket import dial, message
from tests.service.waiting import until
from tests.service.websocket.clients import FROM_CLIENT, client
from tests.service.websocket.conftest import Door

pytestmark = pytest.mark.asyncio(loop_scope="package")

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "telephony.md").read_text()
SNIPPETS = re.findall(r"^```(\w*)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
CALL = "janes-call"


def of(language: str, word: str = "") -> str:
    """The only snippet in that language that has the word."""
    (found,) = (text for kind, text in SNIPPETS if kind == language and word in text)
    return found


@dataclass(frozen=True)
class Ports:
    grpc: str
    http: str
    calls: Calls

    def at(self, snippet: str) -> str:
        return snippet.replace("localhost:50051", self.grpc).replace("localhost:8080", self.http)


@asynccontextmanager
async def ports(door: Door) -> AsyncIterator[Ports]:
    calls = Calls()
    app = application(door.engine, Limits(), calls, routes=http.routes(calls))
    async with (
        serving_grpc(door.engine, "127.0.0.1", 0, calls=calls, grace_s=0) as speech,
        serving_http(app, "127.0.0.1", 0, grace_s=0) as address,
    ):
        yield Ports(speech.address, address, calls)


async def run(program: str) -> str:
    """What a program of a user prints."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", program, stdout=asyncio.subprocess.PIPE, env={"PYTHONPATH": str(ROOT / "clients/python")}
    )
    out, _ = await process.communicate()
    assert process.returncode == 0
    return out.decode()


async def test_an_agent_in_python(door: Door) -> None:
    async with ports(door) as here, line(here.calls.sinks, CALL, beat_s=0.002) as caller:
        printed = (await run(here.at(of("python", "greet")))).splitlines()
        seconds = [float(words.split()[0]) for words in printed if words.endswith(" s were heard")]
        assert seconds == sorted(seconds) and seconds[-1] == pytest.approx(caller.sink.player.heard / 8000, abs=0.06)
        assert "the greeting was heard" in printed[:-1] and printed[-1] == "all of it was heard"


async def test_an_agent_that_is_interrupted(door: Door) -> None:
    async with ports(door) as here, line(here.calls.sinks, CALL, beat_s=0.01) as caller:
        printed = await run(here.at(of("python", "interrupted")))
        assert printed == f"{sum(frame.samples for frame in caller.spoken)} samples were heard\n"


async def test_an_agent_over_websocket(door: Door) -> None:
    async with ports(door) as here, line(here.calls.sinks, CALL), client(here.http) as agent:
        for text in of("json", '"end"').splitlines():
            FROM_CLIENT.validate(json.loads(text))
            await agent.socket.send(text)
        told = await agent.end()
        assert told.kinds[-1] == "done" and [each["name"] for each in told.of("marked")] == ["greeting"]


async def test_what_curl_is_asked_for(door: Door) -> None:
    async with ports(door) as here, line(here.calls.sinks, CALL) as caller, httpx.AsyncClient(trust_env=False) as there:
        for command in here.at(of("sh", "curl")).splitlines():
            program, *words = shlex.split(command)
            method = words[words.index("-X") + 1] if "-X" in words else "GET"
            answer = await there.request(method, words[-1])
            assert program == "curl" and answer.status_code == 200 and CALL in answer.text
        assert caller.hung_up


@pytest.mark.parametrize("word", ["--audiosocket-port", "--twilio-token"])
async def test_flags_that_are_named_are_there(word: str) -> None:
    program, command, *flags = shlex.split(of("sh", word))
    assert (program, command) == ("oscine", "serve")
    parser = argparse.ArgumentParser()
    arguments.Arguments(parser, arguments.ALL)
    given = parser.parse_args(flags)
    assert {flag for flag in flags if flag.startswith("--")} == {
        SETTINGS[name.removeprefix("setting ")].flag for name in vars(given) if name.startswith("setting ")
    }


def changed(name: str, url: str, change: Callable[[Any], object] = lambda message: None) -> Script:
    """A carrier that connects to the path and query of a URL, and begins with what a snippet makes of its message."""
    script, address = SCRIPTS[name], urlsplit(url)
    assert address.scheme in ("ws", "wss") and address.path == script.path.partition("?")[0]
    told = json.loads(script.opening[-1])
    change(told)
    path = f"{address.path}?{address.query}" if address.query else address.path
    return replace(script, path=path, opening=(*script.opening[:-1], json.dumps(told)))


def _twilio() -> Script:
    (stream,) = ElementTree.fromstring(of("xml", "<Connect>")).iter("Stream")
    (parameter,) = stream.iter("Parameter")
    asked = {parameter.attrib["name"]: parameter.attrib["value"]}
    return changed("twilio", stream.attrib["url"], lambda told: told["start"].update(customParameters=asked))


def _telnyx() -> Script:
    asked = json.loads(of("json", "stream_url"))
    assert asked["stream_codec"] == asked["stream_bidirectional_codec"] in ENCODINGS
    format = {"encoding": asked["stream_codec"], "sample_rate": 8000, "channels": 1}
    return changed("telnyx", asked["stream_url"], lambda told: told["start"].update(media_format=format))


def _plivo() -> Script:
    (stream,) = ElementTree.fromstring(of("xml", "bidirectional")).iter("Stream")
    encoding, _, rate = stream.attrib["contentType"].partition(";rate=")
    format = {"encoding": encoding, "sampleRate": int(rate)}
    return changed("plivo", (stream.text or "").strip(), lambda told: told["start"].update(mediaFormat=format))


def _vonage() -> Script:
    (action,) = json.loads(of("json", "endpoint"))
    (endpoint,) = action["endpoint"]
    asked = {**endpoint["headers"], "content-type": endpoint["content-type"], "uuid": ""}
    return changed("vonage", endpoint["uri"], lambda told: told.update(asked))


def _asterisk() -> Script:
    ini = configparser.ConfigParser()
    ini.read_string(of("ini", "websocket_client"))
    dialled = of("ini", "Dial")
    ((variable, value),) = re.findall(r"Set\((\w+)=([\w-]+)\)", dialled)
    (codec,) = re.findall(r"Dial\(WebSocket/oscine/c\((\w+)\)f\(json\)\)", dialled)
    assert variable == VARIABLE and codec in FORMATS and ini["oscine"]["protocols"] == "media"
    asked = {"channel_variables": {variable: value}, "format": codec}
    return changed("asterisk", ini["oscine"]["uri"], lambda told: told.update(asked))


@pytest.mark.parametrize("script", [_twilio, _telnyx, _plivo, _vonage, _asterisk])
async def test_carriers_that_are_told_so_bring_the_call(door: Door, script: Callable[[], Script]) -> None:
    async with ports(door) as here, client(here.http) as agent, call(here.http, script()) as caller:
        await agent.send("start", sink=CALL, mode="sentence", seed=1)
        await agent.send("text", text="Yes.")
        await agent.send("end")
        assert (await agent.end()).kinds[-1] == "done" and caller.heard


async def test_the_dialplan_of_audiosocket(door: Door) -> None:
    ((name, host, _),) = re.findall(r"AudioSocket\(([\w-]+),(\w+):(\d+)\)", of("ini", "AudioSocket"))
    async with audiosocket.serving(host, 0, door.calls) as address:
        where, _, port = address.rpartition(":")

        async def is_up() -> bool:
            return [each.name for each in door.calls.sinks] == [name]

        async with dial((where, int(port)), message(1, uuid.UUID(name).bytes)):
            await until(is_up)


async def test_the_address_of_jambonz_and_the_paths_of_the_table() -> None:
    assert of("", "/jambonz").strip() == f"wss://voice.example.com{jambonz.PATH}"
    for script in SCRIPTS.values():
        assert f"`{script.path.partition('?')[0]}`" in PAGE
