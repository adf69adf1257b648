"""Utterances for the flow's parity checks, and how the incremental runner speaks them."""

from typing import NamedTuple

import torch
from torch import Tensor

from oscine_engine.flow.network import Flow
from oscine_engine.flow.runner import FlowPrefix, FlowRunner, FlowStream, page_shape
from oscine_engine.runtime.pages import PagePool


class Utterance(NamedTuple):
    """The first arguments of `solve`."""

    prompt: Tensor
    tokens: Tensor
    mel: Tensor
    embedding: Tensor
    noise: Tensor

    def double(self) -> "Utterance":
        """The same in float64."""
        return Utterance(*(part.double() if part.is_floating_point() else part for part in self))


def new_runner(flow: Flow, utterance: Utterance, streams: int) -> FlowRunner:
    """A runner with pages for `streams` streams as long as `utterance`, in the precision of `flow`."""
    config = flow.config
    frames = config.token_mel_ratio * (utterance.prompt.shape[1] + utterance.tokens.shape[1])
    pages = streams * (frames // config.dit.static_chunk_size + 1)
    shape = page_shape(config, config.cfm.n_timesteps)
    pool = PagePool(pages, shape, dtype=flow.input_embedding.weight.dtype)
    return FlowRunner(flow, pool, config.cfm.n_timesteps, utterance.noise)


def one_stream(flow: Flow, utterance: Utterance) -> list[Tensor]:
    """Stream one utterance, tokens fed one by one; the mel [n, 80] of each chunk."""
    runner = new_runner(flow, utterance, streams=1)
    stream = runner.open(runner.register(utterance.prompt[0], utterance.mel[0], utterance.embedding[0]))
    mels, ids = [], utterance.tokens[0].tolist()
    for number, token in enumerate(ids, start=1):
        runner.feed(stream, [token], last=number == len(ids))
        while runner.ready(stream):
            runner.begin(stream)
            for _ in range(runner.n_timesteps):
                runner.step([stream])
            mels.append(runner.take_mel(stream))
    return mels


def run_streams(runner: FlowRunner, utterances: list[Utterance], stagger: int) -> list[Tensor]:
    """Stream `utterances` together, each `stagger` Euler steps after the one before; mels [1, 80, n] each."""
    prefixes: list[FlowPrefix] = []
    streams: list[FlowStream] = []
    mels: list[list[Tensor]] = []
    for said in utterances:
        prefixes.append(runner.register(said.prompt[0], said.mel[0], said.embedding[0]))
        streams.append(runner.open(prefixes[-1]))
        runner.feed(streams[-1], said.tokens[0].tolist(), last=True)
        mels.append([])
    tick = 0
    while not all(runner.finished(stream) for stream in streams):
        started = streams[: 1 + tick // stagger] if stagger else streams
        for stream in started:
            if runner.ready(stream):
                runner.begin(stream)
        active = [stream for stream in started if stream.chunk is not None]
        if active:
            runner.step(active)
        for mel, stream in zip(mels, streams, strict=True):
            mel.append(runner.take_mel(stream))
        tick += 1
    for stream, prefix in zip(streams, prefixes, strict=True):
        runner.close(stream)
        runner.release(prefix)
    return [torch.cat(mel).transpose(0, 1)[None] for mel in mels]
