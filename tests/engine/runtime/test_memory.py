"""What a loop at rest gives back."""

import gc
import weakref

from oscine_engine.runtime.memory import give_back


class Ring:
    """It refers to itself."""

    def __init__(self) -> None:
        self.me = self


def test_what_only_refers_to_itself_is_freed() -> None:
    gc.disable()
    try:
        left = weakref.ref(Ring())
        assert left() is not None
        give_back()
        assert left() is None
    finally:
        gc.enable()
