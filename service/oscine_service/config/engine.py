"""Settings -> what an engine is told."""

from typing import TYPE_CHECKING, cast

from oscine_service.config.model import Settings
from oscine_service.storage import places

if TYPE_CHECKING:
    from oscine_engine.settings import EngineSettings


def engine_settings(settings: Settings) -> "EngineSettings":
    """Those of the first engine: of several devices it has the first."""
    from oscine_engine.checkpoint.layout import LMFile
    from oscine_engine.settings import EngineSettings, Precision

    engine = settings.engine
    device = engine.device[0]
    return EngineSettings(
        max_streams=engine.max_streams,
        utilisation=engine.utilisation,
        model=engine.model,
        voices=places.folder(engine),
        references=engine.references,
        side_by_side=engine.side_by_side,
        lm_file=cast(LMFile, engine.lm_file),
        vllm=engine.vllm,
        device=device,
        precision=cast(Precision, engine.precision or ("float32" if device == "cpu" else "float16")),
    )
