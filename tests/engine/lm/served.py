"""Plays the part of vLLM where that cannot run: the files written for it, and what it makes of a request."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor

from oscine_engine.config import LMConfig
from oscine_engine.lm.network import SpeechLM
from oscine_engine.lm.vllm_requests import Ask


class Served:
    """An `Engine` over a directory of `checkpoint.merged.write`; the likeliest id is said, several at a time if asked.

    asks: all requests. aborted: those that were. open: whether it has been started and not stopped. fails: what the
    next requests raise. at_once: ids that come together.
    """

    def __init__(self, directory: Path, *, at_once: int = 1) -> None:
        about = json.loads((directory / "config.json").read_text())
        config = LMConfig(
            hidden_size=about["hidden_size"],
            num_hidden_layers=about["num_hidden_layers"],
            num_attention_heads=about["num_attention_heads"],
            num_key_value_heads=about["num_key_value_heads"],
            intermediate_size=about["intermediate_size"],
            vocab_size=about["vocab_size"],
            rope_theta=about["rope_theta"],
            rms_norm_eps=about["rms_norm_eps"],
            speech_token_size=1,
            decoder_rows=about["vocab_size"],
        )
        self._lm = SpeechLM(config).eval().requires_grad_(False)
        state = load_file(directory / "model.safetensors")
        self._lm.llm_decoder.weight.copy_(state.pop("lm_head.weight"))
        self._lm.decoder.load_state_dict({name.removeprefix("model."): value for name, value in state.items()})
        self._eos = about["eos_token_id"]
        self._at_once = at_once
        self.asks: list[Ask] = []
        self.aborted: list[Ask] = []
        self.open = False
        self.fails: Exception | None = None
        self.held = asyncio.Event()
        self.held.set()

    @asynccontextmanager
    async def opened(self) -> AsyncIterator["Served"]:
        self.open = True
        try:
            yield self
        finally:
            self.open = False

    async def release(self) -> None:
        self.held.set()

    def logits(self, ids: list[int]) -> Tensor:
        """Of the id that comes next."""
        hidden = self._lm(self._lm.embed_text(torch.tensor([ids])))
        return self._lm.head(hidden[0, -1])

    async def generate(self, ask: Ask) -> AsyncIterator[list[int]]:
        self.asks.append(ask)
        ids, said = list(ask.prompt), list[int]()
        try:
            while len(said) < ask.most and said[-1:] != [self._eos]:
                await asyncio.sleep(0)
                if self.fails is not None:
                    raise self.fails
                if said:
                    await self.held.wait()
                new: list[int] = []
                while len(new) < self._at_once and len(said) < ask.most and said[-1:] != [self._eos]:
                    logits = self.logits(ids)
                    if len(said) < ask.least:
                        logits[self._eos] = -torch.inf
                    new.append(int(logits.argmax()))
                    ids.append(new[-1])
                    said.append(new[-1])
                yield new
        except (asyncio.CancelledError, GeneratorExit):
            self.aborted.append(ask)
            raise
