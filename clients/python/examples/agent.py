"""A language model's tokens, spoken while it writes them.

    python agent.py --chat http://localhost:11434/v1 --model qwen3 "Tell me about the moon."
    some-model "Tell me about the moon." | python agent.py
    some-model "Tell me about the moon." | python agent.py --server ws://localhost:8080

The first asks any service with OpenAI's chat completions (its key in OPENAI_API_KEY, if it wants one), the second
reads standard input as it comes, and the third speaks over a WebSocket instead of gRPC. Speech goes to the sound card
through ffplay or aplay, or to a WAV file (-o). Press Ctrl-C to interrupt: it then says how much was heard.
"""

import argparse
import codecs
import json
import os
import shutil
import subprocess
import sys
import threading
import time
import urllib.request
import wave
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, TypeAlias

import oscine_client
from oscine_client import Audio, Cancelled, Config, Cut, Done, SpeechError, Started

if TYPE_CHECKING:
    import oscine_client.websocket

Write = Callable[[bytes], object]
Client: TypeAlias = "oscine_client.Client | oscine_client.websocket.Client"
Call: TypeAlias = "oscine_client.Call | oscine_client.websocket.Call"


def from_chat(url: str, model: str, question: str) -> Iterator[str]:
    """The pieces of an answer as the model writes it (server-sent events)."""
    body = {"model": model, "stream": True, "messages": [{"role": "user", "content": question}]}
    headers = {"Content-Type": "application/json"}
    if key := os.environ.get("OPENAI_API_KEY"):
        headers["Authorization"] = f"Bearer {key}"
    request = urllib.request.Request(f"{url.rstrip('/')}/chat/completions", json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request) as answer:
        for line in answer:
            _, found, data = line.decode().strip().partition("data:")
            if found and data.strip() != "[DONE]":
                for choice in json.loads(data).get("choices", ()):
                    yield choice["delta"].get("content") or ""


def from_standard_input() -> Iterator[str]:
    """What comes, when it comes: not line by line."""
    decode = codecs.getincrementaldecoder("utf-8")("replace").decode
    while data := os.read(sys.stdin.fileno(), 4096):
        yield decode(data)


def feed(call: Call, tokens: Iterator[str], failures: list[BaseException]) -> None:
    """Runs in a thread of its own while the main one listens."""
    try:
        for token in tokens:
            print(token, end="", flush=True)
            call.append(token)
        call.finish()
    except BaseException as error:
        failures.append(error)
        call.close()


@contextmanager
def output(path: str | None, rate: int) -> Iterator[Write]:
    if path is not None:
        with wave.open(path, "wb") as file:
            file.setnchannels(1)
            file.setsampwidth(2)
            file.setframerate(rate)
            yield file.writeframesraw
        return
    players = {
        "ffplay": ["-nodisp", "-autoexit", "-loglevel", "error", "-f", "s16le", "-ar", str(rate), "-"],
        "aplay": ["-q", "-t", "raw", "-f", "S16_LE", "-c", "1", "-r", str(rate), "-"],
    }
    name = next((name for name in players if shutil.which(name)), None)
    if name is None:
        sys.exit("no player found: install ffplay or aplay, or write a file with -o speech.wav")
    with subprocess.Popen([name, *players[name]], stdin=subprocess.PIPE, bufsize=0) as player:
        assert player.stdin is not None
        yield player.stdin.write


def listen(call: Call, path: str | None) -> None:
    began, first, rate = time.monotonic(), None, 0
    with ExitStack() as opened:
        write: Write = len
        try:
            for event in call:
                if isinstance(event, Started):
                    rate = event.sample_rate
                    write = opened.enter_context(output(path, rate))
                elif isinstance(event, Audio):
                    first = first or time.monotonic() - began
                    write(event.data)
                elif isinstance(event, Done):
                    spoken = f"{event.audio_seconds:.1f} s of speech, the first after {first or 0:.2f} s"
                    print(f"\n\n{spoken}", file=sys.stderr)
        except KeyboardInterrupt:
            call.cancel()
            try:
                heard = next((event.heard_samples for event in call if isinstance(event, Cancelled)), None)
            except Cut:
                heard = None  # over gRPC nobody tells any more once the text has ended
            # All may have been sent by then, and only the player not be through with it.
            told = "" if heard is None or not rate else f" after {heard / rate:.1f} s"
            print(f"\n\ninterrupted{told}", file=sys.stderr)


def connected(server: str, key: str | None) -> Client:
    """Both clients have the same methods."""
    if server.startswith(("ws://", "wss://")):
        from oscine_client import websocket

        return websocket.Client(server, key=key)
    return oscine_client.Client(server, key=key)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("question", nargs="?", default="", help="what to ask the model")
    parser.add_argument("--server", default="localhost:50051", metavar="HOST:PORT", help="or ws://HOST:PORT")
    parser.add_argument("--key", default=os.environ.get("OSCINE_KEY"), help="default: $OSCINE_KEY")
    parser.add_argument("--voice", default="")
    parser.add_argument("--chat", metavar="URL", help="of a chat service, such as http://localhost:11434/v1")
    parser.add_argument("--model", default="gpt-4o-mini")
    parser.add_argument("-o", "--output", metavar="FILE.wav")
    options = parser.parse_args()
    tokens = from_chat(options.chat, options.model, options.question) if options.chat else from_standard_input()
    failures: list[BaseException] = []
    try:
        with (
            connected(options.server, options.key) as client,
            client.open(Config(voice=options.voice, encoding="pcm16")) as call,
        ):
            threading.Thread(target=feed, args=(call, tokens, failures), daemon=True).start()
            listen(call, options.output)
    except SpeechError as error:
        if not failures:
            print(f"\n{error}", file=sys.stderr)
            return 1
    if failures:
        print(f"\nthe text broke off: {failures[0]}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
