"""`oscine reward` as those who tune a model meet it: over a real socket, with the real recogniser."""

import asyncio
import base64
import io
import json
import re
import signal
import subprocess
import sys
import threading
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

pytest.importorskip("faster_whisper", reason="the listen extra is not installed")
pytest.importorskip("whisper_normalizer", reason="the listen extra is not installed")
pytest.importorskip("opencc", reason="the listen extra is not installed")

from oscine_engine.engine import Engine
from oscine_engine.errors import InvalidInput, Overloaded
from oscine_engine.events import Mode, SessionRequest
from oscine_service.batch.packing import Job, speak
from oscine_service.listening.scoring import syllables
from oscine_service.reward.app import MOST_WAITING, Desk
from oscine_service.reward.judge import Judge, language_of, reward, units

PATIENCE_S = 120
OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def test_a_reward_falls_from_one_towards_nothing() -> None:
    rewards = [reward(rate / 10) for rate in range(31)]
    assert rewards[0] == 1.0 and all(0 < after < before for before, after in pairwise(rewards))
    assert reward(1.0) < 0.01


def test_mandarin_is_compared_by_what_is_heard() -> None:
    assert language_of("我用 Python 写。") == "zh" and language_of("I write Python.") == "en"
    # Other characters, the same sound; then another tone.
    assert units("zh", "他在这里。") == units("zh", "她再这里")
    assert units("zh", "买") != units("zh", "卖")
    assert syllables("买") == syllables("卖")
    # Two third tones in a row, as they are spoken.
    assert syllables("你好", tones=True) == ["ni2", "hao3"]


def test_a_text_without_words_cannot_be_judged() -> None:
    with pytest.raises(InvalidInput, match="no words"):
        Judge()(np.zeros(16000, np.float32), 16000, "...")


@pytest.fixture(scope="module")
def service() -> Iterator[str]:
    command = [sys.executable, "-m", "oscine_service.cli", "reward", "--port", "0", "--workers", "1"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stderr is not None
    try:
        said = process.stdout.readline()
        found = re.fullmatch(r"judging on (http://127\.0\.0\.1:\d+/v1/reward)\n", said)
        assert found is not None, said + process.stderr.read()
        yield found[1]
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 143 and not process.stderr.read()
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
        process.stderr.close()


def post(url: str, body: bytes, kind: str = "application/json") -> tuple[int, dict[str, Any]]:
    request = urllib.request.Request(url, body, {"Content-Type": kind})
    try:
        with OPENER.open(request, timeout=PATIENCE_S) as response:
            return response.status, json.load(response)
    except urllib.error.HTTPError as refused:
        return refused.code, json.load(refused)


def wav(samples: np.ndarray, rate: int = 24000) -> bytes:
    file = io.BytesIO()
    soundfile.write(file, samples, rate, format="WAV", subtype="PCM_16")
    return file.getvalue()


NOTHING = wav(np.zeros(12000))
PACKED = base64.b64encode(NOTHING).decode()


def test_silence_is_worth_nothing_and_bad_items_cost_others_nothing(service: str) -> None:
    text = "The kettle is on, and the rain has stopped."
    items = [{"text": text, "audio": PACKED}, {"text": text, "audio": "AAAA"}, {"audio": PACKED}, {"text": text}]
    status, found = post(service, json.dumps({"items": items}).encode())
    assert status == 200
    good, *bad = found["items"]
    assert good["reward"] < 0.1 and good["units"] == 9 and good["language"] == "en"
    assert [item["error"]["code"] for item in bad] == ["invalid_input"] * 3
    assert "readable audio" in bad[0]["error"]["message"] and bad[1]["error"]["message"].startswith("text:")

    assert post(service, json.dumps(items[0]).encode()) == (200, good)
    assert post(f"{service}?{urllib.parse.urlencode({'text': text})}", NOTHING, "audio/wav") == (200, good)


@pytest.mark.parametrize(
    ("body", "word"),
    [
        (b"no json", "JSON"),
        (b'{"text": "Hi.", "text": "Ho."}', "twice"),
        (json.dumps({"text": "Hi."}).encode("utf-16"), "JSON"),
        (b"[]", "object"),
        pytest.param(b"[" * 100_000, "JSON", id="deep"),
        (b"{}", "text"),
        (json.dumps({"text": "Hi.", "audio": "?"}).encode(), "base64"),
        (json.dumps({"text": "Hi.", "audio": "\u00fcber"}).encode(), "base64"),
        (json.dumps({"text": "Hi.", "audio": PACKED, "language": "fr"}).encode(), "'fr'"),
        (json.dumps({"text": "Hi." * 2000, "audio": PACKED}).encode(), "characters"),
        (json.dumps({"items": []}).encode(), "items"),
        (json.dumps({"items": ["a"]}).encode(), "items"),
    ],
)
def test_what_cannot_be_judged_is_refused_with_a_reason(service: str, body: bytes, word: str) -> None:
    status, found = post(service, body)
    assert status == 400 and word in found["error"]["message"]


async def test_what_would_wait_too_long_is_refused_at_once() -> None:
    hold = threading.Event()
    with ThreadPoolExecutor(1) as threads:
        threads.submit(hold.wait)
        desk = Desk(Judge(), threads)
        items = [{"text": "Hi.", "audio": "AAAA"}] * MOST_WAITING
        waiting = asyncio.create_task(desk.judged(items))
        await asyncio.sleep(0)
        with pytest.raises(Overloaded, match=str(MOST_WAITING)) as refused:
            await desk.judged(items[:1])
        assert refused.value.retry_after_s > 0
        hold.set()
        assert len(await waiting) == MOST_WAITING
        assert len(await desk.judged(items[:1])) == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("voice", "text", "other"),
    [
        ("heart", "There is fresh bread on the kitchen table.", "The meeting was put off until next week."),
        ("xiaoxiao", "今天天气很好，我们去公园吧。", "请把窗户关上，外面太吵了。"),
    ],
)
async def test_speech_is_worth_what_it_says(voice: str, text: str, other: str, tmp_path: Path) -> None:
    async with Engine.load() as engine:
        said = await speak(engine, Job("a", text, lambda: SessionRequest(voice=voice, mode=Mode.SENTENCE, seed=0)))
    judge = Judge()
    right, wrong = (judge(said.samples, 24000, wanted) for wanted in (text, other))
    assert right.reward > 0.6 > 0.1 > wrong.reward
    assert right.language == wrong.language == language_of(text)
