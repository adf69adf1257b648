"""jambonz' custom text-to-speech, by messages as it sends them."""

import json

import pytest
from websockets.exceptions import InvalidStatus

from oscine_service.telephony import jambonz
from oscine_service.websocket import turns
from tests.service.compat.replay import Replay, replay
from tests.service.waiting import until
from tests.service.websocket.clients import client as native
from tests.service.websocket.conftest import Door

pytestmark = pytest.mark.asyncio(loop_scope="package")

PATH = "/v1/telephony/jambonz?voice=synthetic&language=en-US&sampleRate=16000&somethingNew=1"
LONG = "This goes on and on, as long as anybody cares to listen to it, and then some more. " * 8


async def connected(client: Replay) -> None:
    told = await client.until(lambda each: True)
    assert told == {"type": "connect", "data": {"sample_rate": 16000, "base64_encoding": False}}


async def test_tokens_of_a_language_model_and_a_flush(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "QUIET_S", 0.2)
    async with native(door.address) as direct, replay(door.address, PATH) as client:
        await connected(client)
        await direct.send("start", format={"encoding": "pcm16", "sample_rate": 16000}, language="en")
        await direct.send("text", text="Yes it is. So it is.")
        await direct.send("end")
        length = (await direct.end()).samples
        for text in ("Yes", "it is. So", "it is."):
            await client.send({"type": "stream", "text": text})
        await client.send({"type": "flush"}, {"type": "keepalive"})
        sound = await client.until_sound()
        assert len(sound) % 2 == 0
        # The place is given back when it has been quiet, and the socket stays.
        await until(lambda: free(door), 20)
        while 2 * len(client.sound) < length:
            await client.next()
        await client.send({"type": "stream", "text": "Yes."}, {"type": "flush"})
        at = len(client.answers)
        await client.until_sound()
        assert len(client.told) == 1 and len(client.answers) > at


async def free(door: Door) -> bool:
    return door.engine.load_now == (0, 0)


async def test_a_caller_who_interrupts(door: Door) -> None:
    async with replay(door.address, PATH) as client:
        await connected(client)
        await client.send({"type": "stream", "text": LONG})
        await client.until_sound()
        await client.send({"type": "stop"})
        await until(lambda: free(door), 20)
        # What follows is another turn: all that comes now is of it.
        await client.send({"type": "stream", "text": "Yes."}, {"type": "flush"})
        await client.until_sound()


async def test_what_cannot_be_served_is_told(door: Door) -> None:
    async with replay(door.address, PATH) as client:
        await connected(client)
        await client.send({"type": "sing"}, {"type": "stream"})
        for why in ("stream, flush, stop, keepalive", "text: it is missing"):
            told = await client.until(lambda each: each["type"] == "error")
            assert why in told["error"]
        await client.send({"type": "stream", "text": "Yes."}, {"type": "flush"})
        await client.until_sound()
    async with replay(door.address, PATH.replace("synthetic", "nobody")) as client:
        await connected(client)
        await client.send({"type": "stream", "text": "Yes."})
        assert "nobody" in (await client.until(lambda each: each["type"] == "error"))["error"]
    for wrong in ("sampleRate=7", "sampleRate=x", "language=tlh"):
        with pytest.raises(InvalidStatus) as refused:
            async with replay(door.address, f"/v1/telephony/jambonz?{wrong}"):
                pass
        assert wrong.partition("=")[0].replace("sampleR", "r").lower() in refused.value.response.body.decode().lower()
        assert json.loads(refused.value.response.body)["error"]["code"] == "invalid_input"


@pytest.mark.parametrize(
    ("before", "text", "appended"),
    [
        ("", "Yes", "Yes"),
        ("Yes", "it", " it"),
        ("Yes.", "it", " it"),
        ("Yes ", "it", "it"),
        ("Yes", " it", " it"),
        ("Yes", ", it", ", it"),
        ("你", "好", "好"),
        ("Yes", "", ""),
    ],
)
async def test_words_do_not_grow_together(before: str, text: str, appended: str) -> None:
    assert jambonz.spaced(before, text) == appended
