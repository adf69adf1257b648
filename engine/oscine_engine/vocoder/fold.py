"""Weights made ready for inference."""

from torch.nn.utils import parametrize

from oscine_engine.vocoder.layers import Conv, Upsample
from oscine_engine.vocoder.network import HiFT


def folded(network: HiFT) -> HiFT:
    """A frozen copy with weight norm multiplied out, the F0 predictor in float64 and upsampling kernels merged.

    A network folded already comes back as it is. The result's state dict is no longer that of hift.pt.
    """
    if not parametrize.is_parametrized(network.conv_pre, "weight"):
        return network
    # A new network, not a deep copy: copies share their parametrized classes, and folding one would break the other.
    weight = network.m_source.l_linear.weight
    fresh = HiFT(network.config).to(weight.device, weight.dtype)
    fresh.load_state_dict(network.state_dict())
    # To float64 before folding, so that the norm itself is computed in it.
    fresh.f0_predictor.double()
    for module in fresh.modules():
        if isinstance(module, Conv) and parametrize.is_parametrized(module, "weight"):
            parametrize.remove_parametrizations(module, "weight", leave_parametrized=True)
        if isinstance(module, Upsample):
            module.fixed = module.merged()
    return fresh.eval().requires_grad_(False)
