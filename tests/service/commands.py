"""Commands that tests run."""

import subprocess
from typing import Any, AnyStr, Generic


class Command(subprocess.Popen[AnyStr], Generic[AnyStr]):
    """Is killed where its test fails, which would otherwise wait for its end."""

    def __exit__(self, kind: Any, value: Any, traceback: Any) -> None:
        if kind is not None:
            self.kill()
        super().__exit__(kind, value, traceback)
