"""Kernels run on the GPU if there is one, else in Triton's interpreter, which must be asked for before its import."""

import importlib.util
import os
import sys
from collections.abc import Callable
from typing import Any

import torch


def _loops_over_numbers() -> None:
    """Let the interpreter take a number of its own, an array of one element, as the bound of a `range`.

    A `for` is what Triton overlaps with the loads of the next round; from NumPy 2.4 on such an array is no integer.
    """
    from triton.runtime import interpreter

    patch = interpreter._patch_lang_tensor

    class Scope:
        def __init__(self, scope: Any) -> None:
            self._scope = scope

        def set_attr(self, owner: Any, name: str, value: Any) -> None:
            self._scope.set_attr(owner, name, value if name != "__index__" else lambda x: int(x.handle.data.item()))

    interpreter._patch_lang_tensor = lambda tensor, scope: patch(tensor, Scope(scope))


def _masks_of_booleans() -> None:
    """Let the interpreter keep its masks boolean: in 3.9 a block `&` a number of its own comes out as int32."""
    from triton.runtime import interpreter

    def boolean(verb: Callable[..., Any], place: int) -> Callable[..., Any]:
        def masked(self: Any, *given: Any) -> Any:
            given[place].data = given[place].data.astype(bool)
            return verb(self, *given)

        return masked

    builder = interpreter.InterpreterBuilder
    builder.create_masked_load = boolean(builder.create_masked_load, 1)
    builder.create_masked_store = boolean(builder.create_masked_store, 2)


if not torch.cuda.is_available():
    assert "triton" not in sys.modules or os.environ.get("TRITON_INTERPRET") == "1", "triton was imported too early"
    os.environ["TRITON_INTERPRET"] = "1"
    if importlib.util.find_spec("triton") is not None:
        _loops_over_numbers()
        _masks_of_booleans()
