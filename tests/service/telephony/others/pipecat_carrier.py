"""The other side of a carrier's WebSocket, made of pipecat's serializer for that carrier; runs in an environment of its
own, and knows nothing of ours.

Arguments: carrier, address of the call, and its opening messages as a JSON list. Sends the opening and a second of the
caller's voice, hears what comes, answers marks as the carrier does, and prints what was heard when the call is over.
"""

import asyncio
import base64
import json
import sys

from pipecat.frames.frames import InputAudioRawFrame, OutputAudioRawFrame
from pipecat.serializers.plivo import PlivoFrameSerializer
from pipecat.serializers.telnyx import TelnyxFrameSerializer
from pipecat.serializers.twilio import TwilioFrameSerializer
from pipecat.serializers.vonage import VonageFrameSerializer
from websockets.asyncio.client import connect

RATES = {"twilio": 8000, "telnyx": 8000, "plivo": 8000, "vonage": 16000}


class Setup:
    """Of a pipeline, as far as serializers look at it."""

    def __init__(self, rate: int) -> None:
        self.audio_in_sample_rate = self.audio_out_sample_rate = rate


def serializer(carrier: str):
    if carrier == "twilio":
        return TwilioFrameSerializer("MZ0", params=TwilioFrameSerializer.InputParams(auto_hang_up=False))
    if carrier == "telnyx":
        return TelnyxFrameSerializer("s", "PCMA", "PCMA", params=TelnyxFrameSerializer.InputParams(auto_hang_up=False))
    if carrier == "plivo":
        return PlivoFrameSerializer("s", params=PlivoFrameSerializer.InputParams(auto_hang_up=False))
    return VonageFrameSerializer()


def echo(carrier: str, message: object) -> str | None:
    """What the carrier says once a mark was heard; None for what is no mark."""
    if carrier == "vonage":
        return json.dumps({"event": "websocket:notify", "payload": message["payload"]})
    if message["event"] == "mark":
        return json.dumps(message)
    if message["event"] == "checkpoint":
        return json.dumps({"event": "playedStream", "streamId": message["streamId"], "name": message["name"]})
    return None


async def main(carrier: str, address: str, opening: list[str]) -> None:
    rate = RATES[carrier]
    codec = serializer(carrier)
    await codec.setup(Setup(rate))
    heard, sent = bytearray(), 0
    async with connect(address, compression=None, proxy=None) as socket:
        for message in opening:
            await socket.send(message)
        for _ in range(50):
            frame = OutputAudioRawFrame(audio=bytes(rate // 50 * 2), sample_rate=rate, num_channels=1)
            said = await codec.serialize(frame)
            # Plivo's caller is heard in `media`, and spoken to in `playAudio`.
            if carrier == "plivo":
                said = json.dumps({"event": "media", "media": {"payload": json.loads(said)["media"]["payload"]}})
            await socket.send(said)
            sent += 1
        async for message in socket:
            if isinstance(message, str):
                told = json.loads(message)
                if (mark := echo(carrier, told)) is not None:
                    await socket.send(mark)
                    continue
                if carrier == "plivo" and told["event"] == "playAudio":
                    message = json.dumps({"event": "media", "media": told["media"]})
            frame = await codec.deserialize(message)
            if isinstance(frame, InputAudioRawFrame):
                heard += frame.audio
    print(json.dumps({"heard": base64.b64encode(bytes(heard)).decode(), "sent": sent}))


asyncio.run(main(sys.argv[1], sys.argv[2], json.loads(sys.argv[3])))
