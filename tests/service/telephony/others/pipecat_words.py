"""What pipecat's serializers say for some sound, and to clear it; prints {carrier: [media, clear]}.

Arguments: the sound, as 16-bit samples at 8 kHz and at 16 kHz, in base64."""

import asyncio
import base64
import json
import sys

from pipecat.frames.frames import InterruptionFrame, OutputAudioRawFrame
from pipecat.serializers.plivo import PlivoFrameSerializer
from pipecat.serializers.telnyx import TelnyxFrameSerializer
from pipecat.serializers.twilio import TwilioFrameSerializer
from pipecat.serializers.vonage import VonageFrameSerializer


def shown(message: str | bytes):
    return base64.b64encode(message).decode() if isinstance(message, bytes) else json.loads(message)


async def main(narrow: bytes, wide: bytes) -> None:
    found = {}
    for carrier, codec in {
        "twilio": TwilioFrameSerializer("stream", params=TwilioFrameSerializer.InputParams(auto_hang_up=False)),
        "telnyx": TelnyxFrameSerializer(
            "stream", "PCMA", "PCMA", params=TelnyxFrameSerializer.InputParams(auto_hang_up=False)
        ),
        "plivo": PlivoFrameSerializer("stream", params=PlivoFrameSerializer.InputParams(auto_hang_up=False)),
        "vonage": VonageFrameSerializer(),
    }.items():
        sound, rate = (wide, 16000) if carrier == "vonage" else (narrow, 8000)
        media = await codec.serialize(OutputAudioRawFrame(audio=sound, sample_rate=rate, num_channels=1))
        said = [media, await codec.serialize(InterruptionFrame())]
        found[carrier] = [shown(each) for each in said]
    print(json.dumps(found))


asyncio.run(main(*(base64.b64decode(each) for each in sys.argv[1:3])))
