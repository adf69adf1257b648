"""Our half of carriers' protocols against halves that others wrote: pipecat's serializers, and what Twilio, Plivo and
Vonage publish to check their signatures with. `make telephony` installs them."""

import asyncio
import base64
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from oscine_codecs import g711, pcm
from oscine_engine.errors import OscineError
from oscine_service.audio import Encoding
from oscine_service.security.errors import Unauthenticated
from oscine_service.telephony import signatures
from oscine_service.telephony.carriers.plivo import Plivo
from oscine_service.telephony.carriers.telnyx import Telnyx
from oscine_service.telephony.carriers.twilio import Twilio
from oscine_service.telephony.carriers.vonage import Vonage
from tests.interop.environments import python
from tests.service.telephony.listeners import SCRIPTS
from tests.service.waiting import until
from tests.service.websocket.clients import client
from tests.service.websocket.conftest import Door

pytestmark = [pytest.mark.telephony, pytest.mark.asyncio(loop_scope="package")]

OTHERS = Path(__file__).parent / "others"
LAWS = {Encoding.MULAW: g711.MULAW, Encoding.ALAW: g711.ALAW}


async def told(environment: str, script: str, *arguments: str) -> Any:
    """What a script of others prints last, in their environment."""
    process = await asyncio.create_subprocess_exec(
        python(environment), "-I", OTHERS / script, *arguments, stdout=asyncio.subprocess.PIPE
    )
    out, _ = await process.communicate()
    assert process.returncode == 0
    return json.loads(out.decode().splitlines()[-1])


async def test_pipecat_says_it_as_we_do() -> None:
    """The same messages, field by field; and the same codes of G.711, to a step: where sound lies between two of them,
    others round it otherwise."""
    samples = np.random.default_rng(1).normal(0, 0.2, 1600).astype(np.float32)
    narrow, wide = pcm.encode(samples), pcm.encode(samples)
    said = await told("pipecat", "pipecat_words.py", *(base64.b64encode(each).decode() for each in (narrow, wide)))
    for carrier, law in ((Twilio(), g711.MULAW), (Telnyx(), g711.ALAW), (Plivo(), g711.MULAW)):
        carrier._stream = "stream"  # type: ignore[union-attr]
        media, clear = said[carrier.kind]
        ours = json.loads(carrier.media(law.encode(samples)))
        theirs, mine = (base64.b64decode(each["media"].pop("payload")) for each in (media, ours))
        assert ours == media and json.loads(carrier.clear()) == clear
        step = np.abs(law.decode(mine)) / 16 + 1e-3
        assert len(mine) == len(theirs) and (np.abs(law.decode(mine) - law.decode(theirs)) <= step).all()
        assert np.mean(np.frombuffer(mine, np.uint8) == np.frombuffer(theirs, np.uint8)) > 0.9
    media, clear = said["vonage"]
    assert base64.b64decode(media) == wide == Vonage().media(wide) and json.loads(Vonage().clear()) == clear


@pytest.mark.parametrize("name", ["twilio", "telnyx", "plivo", "vonage"])
async def test_a_call_with_pipecat_at_the_other_end(door: Door, name: str) -> None:
    """What it decodes of our messages is what a client hears, sample for sample; what it says of the caller is read."""
    script = SCRIPTS[name]
    format = {"encoding": script.format.encoding.value, "sample_rate": script.format.sample_rate}
    async with client(door.address) as agent:
        await agent.say("Yes it is.", "direct", format=format)
        await agent.send("end", "direct")
        direct = b"".join(frame for piece in (await agent.end("direct")).pieces for frame in piece.frames)
        opening = json.dumps([*script.opening])
        peer = asyncio.create_task(
            told("pipecat", "pipecat_carrier.py", name, f"ws://{door.address}{script.path}", opening)
        )

        async def is_up() -> bool:
            if peer.done():
                peer.result()
            return any(sink.details()["received_bytes"] for sink in door.calls.sinks)

        await until(is_up, 120)
        (sink,) = door.calls.sinks
        await agent.send("start", mode="sentence", seed=1, sink=sink.name)
        await agent.send("text", text="Yes it is.")
        await agent.send("end")
        assert (await agent.end()).kinds[-1] == "done"
        received = sink.details()["received_bytes"]
        sink.hang_up()
        found = await peer
    heard = base64.b64decode(found["heard"])
    law = LAWS.get(script.format.encoding)
    expected = direct if law is None else pcm.encode(law.decode(direct))
    assert heard[: len(expected)] == expected and len(heard) - len(expected) < script.format.sample_rate // 50 * 2
    assert received == found["sent"] * script.format.sample_rate // 50 * (1 if law is not None else 2)


@pytest.mark.parametrize(
    "url",
    [
        "wss://voice.example.com/v1/telephony/twilio",
        "wss://voice.example.com:8443/v1/telephony/twilio",
        "wss://voice.example.com/v1/telephony/plivo?call=b%20c&a=1",
    ],
    ids="plain port query".split(),
)
async def test_what_carriers_packages_sign_is_taken(url: str) -> None:
    secret = "0123456789abcdef0123456789abcdef"
    headers = await told("carriers", "carriers_sign.py", url, secret, "05429567804466091622")
    for name, make in (
        ("twilio", signatures.twilio),
        ("plivo", signatures.plivo),
        ("vonage", signatures.vonage),
    ):
        make(secret.encode())(headers[name], url)
        refusal: type[OscineError] = Unauthenticated
        with pytest.raises(refusal):
            make(b"another secret")(headers[name], url)
