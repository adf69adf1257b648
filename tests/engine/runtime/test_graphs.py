"""Steps of fixed shape, on the GPU if there is one."""

import numpy as np
import torch

from oscine_engine.runtime.graphs import Graphs, Inputs, Outputs

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def test_a_step_sees_what_was_sent_last_and_answers_it() -> None:
    inputs = Inputs({"flags": ((3,), torch.bool), "numbers": ((3,), torch.int64)}, DEVICE)
    outputs = Outputs({"doubled": ((3,), torch.int64), "any": ((1,), torch.bool)}, DEVICE)
    graphs = Graphs(DEVICE)

    def step() -> None:
        outputs.device["doubled"].copy_(2 * inputs.device["numbers"] * inputs.device["flags"])
        outputs.device["any"].copy_(inputs.device["flags"].any(0, keepdim=True))
        outputs.fetch()

    run = graphs.capture(step)
    for turn in range(5):
        flags = np.array([turn % 2 == 0, True, False])
        inputs.host["numbers"][:] = [turn, 10 * turn, 100]
        inputs.host["flags"][:] = flags
        inputs.send()
        run()
        graphs.mark()
        graphs.wait()
        assert outputs.host["doubled"].tolist() == [2 * turn * (turn % 2 == 0), 20 * turn, 0]
        assert outputs.host["any"].tolist() == [True]


def test_arrays_of_any_types_lie_side_by_side() -> None:
    inputs = Inputs({"a": ((3,), torch.uint8), "b": ((2, 2), torch.float64), "c": ((0,), torch.int32)}, DEVICE)
    inputs.host["a"][:] = [1, 2, 3]
    inputs.host["b"][:] = [[1.5, 2.5], [3.5, 4.5]]
    inputs.send()
    assert inputs.device["a"].tolist() == [1, 2, 3]
    assert inputs.device["b"].tolist() == [[1.5, 2.5], [3.5, 4.5]]
    assert inputs.device["c"].tolist() == []


def test_the_block_being_filled_is_not_the_one_being_copied() -> None:
    inputs = Inputs({"a": ((1,), torch.int64)}, DEVICE)
    inputs.host["a"][:] = 7
    inputs.send()
    inputs.host["a"][:] = 8
    assert inputs.device["a"].tolist() == [7]
    inputs.send()
    assert inputs.device["a"].tolist() == [8]
