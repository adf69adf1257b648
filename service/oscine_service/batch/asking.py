"""A line of a list as a request."""

from pathlib import Path

from oscine_engine.errors import InvalidInput
from oscine_engine.events import Mode, SessionRequest
from oscine_engine.options import ColdVoice
from oscine_service.batch.lists import Line


def request(
    line: Line, *, voice: str | None, mode: Mode, seed: int, cross_lingual: bool | None = None
) -> SessionRequest:
    """What `line` says, and `voice`, `mode` and `seed` where it says nothing of them. Reads its recording.

    Raises InvalidInput for what cannot be asked for, and for a recording that cannot be read.
    """
    recorded = line.recording
    return SessionRequest(
        voice=(line.voice or voice) if recorded is None else None,
        mode=line.mode or mode,
        seed=seed if line.seed is None else line.seed,
        reference=None if recorded is None else ColdVoice(_read(recorded), line.transcript),
        language=line.language,
        instruction=line.instruction,
        speed=1.0 if line.speed is None else line.speed,
        cross_lingual=cross_lingual,
    )


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InvalidInput(f"cannot read the recording {path}: {error.strerror}") from error
