"""A small random flow, with other sizes than the recorded one, and both runners over it."""

import pytest
import torch

from oscine_engine.config import CFMConfig, DiTConfig, FlowConfig, PreLookahead
from oscine_engine.flow.graphed import GraphedFlow
from oscine_engine.flow.network import Flow
from oscine_engine.flow.runner import FlowRunner
from oscine_engine.flow.streams import FlowStreams, page_shape
from oscine_engine.runtime.pages import PagePool

CONFIG = FlowConfig(
    vocab_size=101,
    pre_lookahead=PreLookahead(channels=24),
    cfm=CFMConfig(n_timesteps=4),
    dit=DiTConfig(dim=32, depth=2, heads=3, dim_head=8, conv_pos_groups=8),
)


@pytest.fixture(scope="session")
def flow() -> Flow:
    """Random weights, large enough that every path matters."""
    torch.manual_seed(7)
    flow = Flow(CONFIG).eval()
    with torch.no_grad():
        for parameter in flow.parameters():
            parameter.mul_(1.5)
    return flow


@pytest.fixture(params=["ragged", "slotted"])
def runner(request: pytest.FixtureRequest, flow: Flow) -> FlowStreams:
    pool = PagePool(64, page_shape(CONFIG, CONFIG.cfm.n_timesteps))
    if request.param == "ragged":
        return FlowRunner(flow, pool, CONFIG.cfm.n_timesteps)
    return GraphedFlow(flow, pool, CONFIG.cfm.n_timesteps, max_streams=4, max_prefixes=8)
