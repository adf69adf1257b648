"""Long runs of ids that stand for silence or breath, shortened on their way from the language model to the flow.

The language model sees all it said; the flow is given only the first ids of a run. Which ids those are belongs to the
checkpoint (`config.ModelConfig.silent_ids`).
"""

from collections.abc import Set

SILENT_RUN = 5
"""How many silent ids in a row are passed on."""


class SilentRuns:
    """Counts silent ids in a row."""

    def __init__(self, silent: Set[int], longest: int = SILENT_RUN) -> None:
        self._silent = silent
        self._longest = longest
        self.run = 0
        """Silent ids in a row up to now, those not passed on included."""

    def passes(self, speech_id: int) -> bool:
        """Whether the next id is passed on."""
        self.run = self.run + 1 if speech_id in self._silent else 0
        return self.run <= self._longest
