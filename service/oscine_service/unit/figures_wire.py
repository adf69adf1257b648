"""What an engine has done <-> messages of oscine.unit.v1. Pure."""

from oscine_engine.figures import (
    BATCH_BOUNDS,
    PACKET_BOUNDS,
    TICK_BOUNDS,
    WAIT_BOUNDS,
    Figures,
    Histogram,
    Standing,
)
from oscine_engine.scheduler.views import Stage
from oscine_proto.oscine.unit.v1 import unit_pb2 as pb


def message(figures: Figures) -> pb.Figures:
    return pb.Figures(
        ticks=[_message(figures.ticks[stage]) for stage in Stage],
        batches=[_message(figures.batches[stage]) for stage in Stage],
        queued=_message(figures.queued),
        first_packets=_message(figures.first_packets),
        stood=[figures.stood[standing] for standing in Standing],
        streams=figures.streams,
        expecting=figures.expecting,
        segments=figures.segments,
        audio_seconds=figures.audio_s,
        speech_ids=figures.speech_ids,
        reads=figures.reads,
        underruns=figures.underruns,
        underrun_seconds=figures.underrun_s,
        starved=figures.starved,
        starved_seconds=figures.starved_s,
        chances=figures.chances,
        flow_pages=figures.flow_pages,
        held_pages=figures.held_pages,
    )


def figures(message: pb.Figures) -> Figures:
    """Raises ValueError for a message of another release."""
    return Figures(
        ticks={stage: _histogram(each, TICK_BOUNDS) for stage, each in zip(Stage, message.ticks, strict=True)},
        batches={stage: _histogram(each, BATCH_BOUNDS) for stage, each in zip(Stage, message.batches, strict=True)},
        queued=_histogram(message.queued, WAIT_BOUNDS),
        first_packets=_histogram(message.first_packets, PACKET_BOUNDS),
        stood=dict(zip(Standing, message.stood, strict=True)),
        streams=message.streams,
        expecting=message.expecting,
        segments=message.segments,
        audio_s=message.audio_seconds,
        speech_ids=message.speech_ids,
        reads=message.reads,
        underruns=message.underruns,
        underrun_s=message.underrun_seconds,
        starved=message.starved,
        starved_s=message.starved_seconds,
        chances=tuple(message.chances),
        flow_pages=message.flow_pages,
        held_pages=dict(message.held_pages),
    )


def _message(histogram: Histogram) -> pb.Histogram:
    return pb.Histogram(counts=histogram.counts, total=histogram.total)


def _histogram(message: pb.Histogram, bounds: tuple[float, ...]) -> Histogram:
    if len(message.counts) != len(bounds) + 1:
        raise ValueError(f"a histogram of {len(message.counts)} counts for {len(bounds)} bounds")
    return Histogram(bounds, tuple(message.counts), message.total)
