"""The flow network: trainable, and indifferent to padding."""

import torch

from oscine_engine.flow.dit import chunk_mask
from oscine_engine.flow.network import Flow


def test_a_frame_sees_to_the_end_of_its_own_chunk() -> None:
    mask = chunk_mask(7, 3)
    assert mask.sum(dim=1).tolist() == [3, 3, 3, 6, 6, 6, 7]
    assert mask[3, :6].all()


def test_padding_changes_neither_conditioning_nor_velocity(flow: Flow) -> None:
    generator = torch.Generator().manual_seed(1)
    tokens = torch.randint(0, 101, (1, 40), generator=generator)
    padded = torch.cat((tokens, torch.full((1, 20), 5)), dim=1)
    with torch.no_grad():
        mu = flow.encode(tokens)
        torch.testing.assert_close(flow.encode(padded, torch.tensor([40]))[:, :, :80], mu)
        x, cond = torch.randn(2, 1, 80, 120, generator=generator)
        t, speaker = torch.tensor([0.3]), torch.randn(1, 80, generator=generator)
        wide_mu = torch.nn.functional.pad(mu, (0, 40), value=3.0)
        mask = (torch.arange(120) < 80).float()[None, None]
        for streaming in (False, True):
            short = flow.estimator(x[..., :80], None, mu, t, speaker, cond[..., :80], streaming)
            long = flow.estimator(x, mask, wide_mu, t, speaker, cond, streaming)
            torch.testing.assert_close(long[..., :80], short, atol=1e-4, rtol=1e-4)


def test_every_parameter_gets_a_gradient_under_bfloat16_autocast(flow: Flow) -> None:
    tokens = torch.arange(60).view(2, 30)
    with torch.autocast("cpu", torch.bfloat16):
        mu = flow.encode(tokens, torch.tensor([30, 20]))
        mask = (torch.arange(60) < torch.tensor([[60], [40]])).float()[:, None]
        velocity = flow.estimator(mu, mask, mu, torch.tensor([0.1, 0.9]), flow.speaker(torch.ones(2, 192)), mu, True)
    (velocity.float() * mask).square().mean().backward()
    silent = {name for name, parameter in flow.named_parameters() if parameter.grad is None or not parameter.grad.any()}
    flow.zero_grad(set_to_none=True)
    # keys share one bias under softmax, so it moves nothing but head 0, which the rotary embedding turns
    assert silent == set()
