"""Carriers at the door of a service with keys."""

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
import pytest_asyncio
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from oscine_engine.checkpoint.load import Checkpoint
from oscine_engine.errors import InvalidInput
from oscine_service.config.model import Security, Settings, Telephony
from oscine_service.entrance import Entrance
from oscine_service.security.keys import Key
from tests.service.security.conftest import House, house, keys_file
from tests.service.telephony.listeners import SCRIPTS, call
from tests.service.telephony.test_signatures import SECRET, signed
from tests.service.websocket.clients import client

pytestmark = pytest.mark.asyncio(loop_scope="module")

NO_DIGEST = "0" * 64
PUBLIC = "wss://voice.example.com"
SIGNED = {"X-Twilio-Signature": signed(PUBLIC + "/v1/telephony/twilio")}


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    folder: Path = tmp_path_factory.mktemp("secrets")
    keys = keys_file(folder, one=Key("anna", NO_DIGEST, owner="anna"), two=Key("bob", NO_DIGEST, owner="bob"))
    (folder / "twilio").write_bytes(SECRET + b"\n")
    telephony = Telephony(twilio_token=folder / "twilio", public_url=PUBLIC, carrier_key="anna")
    return replace(Settings(), security=Security(keys=keys), telephony=telephony)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def guarded(checkpoint: Checkpoint, settings: Settings) -> AsyncIterator[House]:
    async with house(checkpoint, settings) as found:
        yield found


async def test_a_signed_call_is_that_of_the_key_that_is_named(guarded: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("oscine_service.conversation.calling.CALL_WAIT_S", 0.3)
    start = {"mode": "sentence", "seed": 1, "sink": SCRIPTS["twilio"].names[0]}
    async with call(guarded.http_address, SCRIPTS["twilio"], additional_headers=SIGNED):
        async with client(guarded.http_address, additional_headers={"X-API-Key": "one"}) as anna:
            await anna.send("start", **start)
            await anna.send("text", text="Yes.")
            await anna.send("end")
            assert (await anna.end()).kinds[-1] == "done"
        async with client(guarded.http_address, additional_headers={"X-API-Key": "two"}) as bob:
            await bob.send("start", **start)
            assert (await bob.end()).last["code"] == "unknown_call"


@pytest.mark.parametrize(
    "headers", [{}, {"X-Twilio-Signature": "bm8="}, {"X-API-Key": "one"}], ids="none bad key".split()
)
async def test_a_call_that_is_not_signed_is_refused(
    guarded: House, headers: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    with pytest.raises(InvalidStatus) as refused:
        async with connect(f"ws://{guarded.http_address}/v1/telephony/twilio", additional_headers=headers, proxy=None):
            pass
    assert refused.value.response.status_code == 401
    assert "not signed by Twilio" in json.loads(refused.value.response.body)["error"]["message"]
    assert "a call at /v1/telephony/twilio was refused" in caplog.text


async def test_who_signs_nothing_brings_a_key(guarded: House) -> None:
    """Asterisk's client of WebSockets has a name and a password to send."""
    url = f"ws://{guarded.http_address}/v1/telephony/asterisk"
    with pytest.raises(InvalidStatus) as refused:
        async with connect(url, proxy=None):
            pass
    assert refused.value.response.status_code == 401
    basic = {"Authorization": "Basic YXN0ZXJpc2s6b25l"}
    async with call(guarded.http_address, SCRIPTS["asterisk"], additional_headers=basic, subprotocols=["media"]) as up:
        assert up.socket.subprotocol == "media"


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"carrier_key": "nobody"}, "--carrier-key: there is no key 'nobody'"),
        ({"public_url": "https://voice.example.com"}, "does not begin with wss"),
        ({"plivo_token": Path("/nowhere")}, "cannot be read"),
    ],
    ids="key url file".split(),
)
async def test_settings_that_cannot_be(settings: Settings, change: dict[str, object], why: str) -> None:
    with pytest.raises(InvalidInput, match=why):
        Entrance(replace(settings, telephony=replace(settings.telephony, **change)))  # type: ignore[arg-type]


async def test_a_secret_that_is_too_short(settings: Settings, tmp_path: Path) -> None:
    (tmp_path / "short").write_text("1234567\n")
    with pytest.raises(InvalidInput, match="fewer than 8"):
        Entrance(replace(settings, telephony=replace(settings.telephony, vonage_secret=tmp_path / "short")))
