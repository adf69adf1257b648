"""Text as it arrives while someone, or a language model, is still producing it."""

from __future__ import annotations

import re

from bench.asr import Language

INTERVAL_S: dict[Language, float] = {"en": 60 / 150, "zh": 1 / 4}
"""Seconds between English words at 150 a minute, and between Mandarin characters at 4 a second."""


def pieces(text: str, lang: Language) -> list[str]:
    """What arrives at once: English words with the blank before them, Mandarin characters; marks stay with the one they
    follow. Joined they give `text`."""
    if lang == "en":
        return re.findall(r"\s*\S+\s*$|\s*\S+", text)
    return re.findall(
        r"[^\u4e00-\u9fffA-Za-z0-9]*(?:[\u4e00-\u9fff]|[A-Za-z0-9]+)[^\u4e00-\u9fffA-Za-z0-9]*", text
    ) or [text]
