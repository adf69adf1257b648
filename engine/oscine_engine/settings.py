"""What an engine may be told. Importing this loads no networks."""

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias

from oscine_engine.checkpoint.layout import LMFile
from oscine_engine.errors import InvalidInput
from oscine_engine.scheduler.admission import UTILISATION
from oscine_engine.session import SessionLimits

Precision: TypeAlias = Literal["float32", "float16", "bfloat16"]
"""Of the language model's and the flow's weights and activations; what must be exact is float32 or better anyway."""


@dataclass(frozen=True, slots=True)
class DeviceLimits:
    """max_streams: streams at once. max_waiting_s: seconds of audio computed ahead of what the listener's side took,
    never less than two chunks.

    utilisation: share of the device that streams may ask for when all speak at once, by its measured costs; infinity
    admits by count alone. voice_bytes: memory for voices' pages, never less than the largest voice takes. stream_bytes:
    memory for the pages of what is being spoken, never less than the longest sentence takes; None is what all streams
    may need at once, or what a GPU has left. side_by_side: on a GPU the language model steps on a CUDA stream of its
    own, also while the flow is at a step: more speech from one device, ids and sound unchanged.
    Raises InvalidInput for limits that nothing could run under.
    """

    max_streams: int = 8
    max_waiting_s: float = 10.0
    utilisation: float = UTILISATION
    voice_bytes: int = 1 << 30
    stream_bytes: int | None = None
    side_by_side: bool = False

    def __post_init__(self) -> None:
        if self.max_streams < 1:
            raise InvalidInput(f"max_streams must be at least 1, not {self.max_streams}")
        if not 0 < self.max_waiting_s < math.inf:
            raise InvalidInput(f"max_waiting_s must be a number of seconds above 0, not {self.max_waiting_s}")
        if not self.utilisation > 0:
            raise InvalidInput(f"utilisation must be above 0, not {self.utilisation}")
        if self.voice_bytes < 0:
            raise InvalidInput(f"voice_bytes must be at least 0, not {self.voice_bytes}")
        if self.stream_bytes is not None and self.stream_bytes < 0:
            raise InvalidInput(f"stream_bytes must be at least 0, not {self.stream_bytes}")


@dataclass(frozen=True, slots=True)
class EngineSettings(DeviceLimits):
    """One engine: its limits, its model and its device.

    model: a model directory; None is the embedded voice. voices: the folder of a voice store; None: there is none.
    references: requests may bring a recording to speak after.
    lm_file: "llm", or "llm.rl" for the reinforced variant.
    vllm: the language model as it was converted for vLLM, which then computes it; None: it is computed here.
    precision: see `Precision`; on a CPU it is float32. threads: CPU threads of one tick, set for the whole process; the
    embedded voice's steps are too short to share out.
    Raises InvalidInput for limits that nothing could run under.
    """

    model: Path | None = None
    voices: Path | None = None
    references: bool = False
    lm_file: LMFile = "llm"
    vllm: Path | None = None
    device: str = "cpu"
    precision: Precision = "float32"
    threads: int = 1
    session: SessionLimits = field(default_factory=SessionLimits)

    def __post_init__(self) -> None:
        DeviceLimits.__post_init__(self)
        if self.threads < 1:
            raise InvalidInput(f"threads must be at least 1, not {self.threads}")
