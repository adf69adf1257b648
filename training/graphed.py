"""A whole training step as one CUDA graph per batch shape; the same code runs eagerly where there is no GPU.

    update = Update([net], lr=1e-3, clip=1.0, ema_decay=0.999)

    def step(batch):                      # pure tensor code: no .item(), no shapes that depend on values
        update.zero()
        with autocast(device):
            loss = net(batch["x"]).square().mean()
        loss.backward()
        return {"loss": loss, "norm": update.apply()}

    run = Graphed(step, device)
    losses = run({"x": x})                # call again with any shape: each shape is captured once

A GAN step holds two `Update`s and calls `zero`, `backward` and `apply` of each in turn. Small models on a slow host are
bound by kernel launches (about 50 us each): a replayed graph costs one launch.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass

import torch
from torch import Tensor, nn

Step = Callable[..., dict[str, Tensor]]


def autocast(device: torch.device | str) -> AbstractContextManager[None]:
    """bf16 autocast on a GPU, nothing on a CPU. The weight cache stays off: a captured graph must cast afresh."""
    kind = torch.device(device).type
    return torch.autocast(kind, dtype=torch.bfloat16, enabled=kind == "cuda", cache_enabled=False)


def pick_device() -> torch.device:
    """The first visible GPU, set up for training, or the CPU."""
    if not torch.cuda.is_available():
        return torch.device("cpu")
    torch.set_float32_matmul_precision("high")
    torch.backends.cudnn.benchmark = True
    # Its plans are built at first use of each shape, which is no work to do inside a capture.
    torch.backends.cuda.enable_cudnn_sdp(False)
    return torch.device("cuda")


class Update:
    """AdamW with gradient clipping and an optional moving average of the weights, all on the device without a sync.

    A step whose gradient norm is not finite is skipped on the device. Only weights of two or more dimensions decay.
    `modules` may be frozen in part: parameters without `requires_grad` are left alone.
    """

    def __init__(
        self,
        modules: Iterable[nn.Module],
        lr: float,
        *,
        betas: tuple[float, float] = (0.9, 0.98),
        weight_decay: float = 0.01,
        clip: float = 1.0,
        ema_decay: float | None = None,
    ) -> None:
        self.modules = list(modules)
        self.parameters = [p for m in self.modules for p in m.parameters() if p.requires_grad]
        if not self.parameters:
            raise ValueError("nothing to train: no parameter requires a gradient")
        device = self.parameters[0].device
        self.lr = torch.tensor(lr, device=device, dtype=torch.float32)
        self.clip = clip
        self.optimizer = torch.optim.AdamW(
            [
                {"params": [p for p in self.parameters if p.ndim > 1], "weight_decay": weight_decay},
                {"params": [p for p in self.parameters if p.ndim <= 1], "weight_decay": 0.0},
            ],
            lr=self.lr,
            betas=betas,
            fused=True,
            capturable=device.type == "cuda",
        )
        for group in self.optimizer.param_groups:
            group["lr"] = self.lr
        # The fused optimizer reads this flag on the device and skips the step where it is 1.
        self.found_inf = torch.zeros((), device=device)
        self.optimizer.found_inf = self.found_inf  # type: ignore[attr-defined]
        self.optimizer.grad_scale = None  # type: ignore[attr-defined]
        self.ema_decay = ema_decay
        # Empty without a decay: then the loops over averages below do nothing.
        self.ema = [p.detach().clone() for p in self.parameters] if ema_decay is not None else []
        for p in self.parameters:
            p.grad = torch.zeros_like(p)

    def zero(self) -> None:
        """Clear the gradients in place, so that every captured shape writes to the same memory."""
        torch._foreach_zero_([p.grad for p in self.parameters if p.grad is not None])

    def apply(self) -> Tensor:
        """Clip, step and average; returns the gradient norm before clipping, a scalar on the device."""
        norm = nn.utils.clip_grad_norm_(self.parameters, self.clip, foreach=True)
        self.found_inf.copy_(~torch.isfinite(norm))
        self.optimizer.step()
        if self.ema_decay is not None:
            with torch.no_grad():
                torch._foreach_lerp_(self.ema, [p.detach() for p in self.parameters], 1.0 - self.ema_decay)
        return norm.detach()

    def set_lr(self, value: float) -> None:
        """Set the learning rate of the next step; captured graphs see it."""
        self.lr.fill_(value)

    def reset_ema(self) -> None:
        """Start the average again from the present weights: call it once after the first few hundred steps."""
        for mean, p in zip(self.ema, self.parameters, strict=False):
            mean.copy_(p.detach())

    def swap_ema(self) -> None:
        """Exchange weights and averages in place; call twice around an evaluation."""
        with torch.no_grad():
            for mean, p in zip(self.ema, self.parameters, strict=False):
                held = p.detach().clone()
                p.copy_(mean)
                mean.copy_(held)

    def state_dict(self) -> dict[str, object]:
        """Weights, optimizer and average of all modules, for `load_state_dict`."""
        return {
            "modules": [m.state_dict() for m in self.modules],
            "optimizer": self.optimizer.state_dict(),
            "ema": self.ema,
        }

    def load_state_dict(self, state: Mapping[str, object]) -> None:
        """Restore in place. Call before the first step is captured: the optimizer's state tensors are replaced."""
        for m, s in zip(self.modules, state["modules"], strict=True):  # type: ignore[call-overload]
            m.load_state_dict(s)
        self.optimizer.load_state_dict(state["optimizer"])  # type: ignore[arg-type]
        for group in self.optimizer.param_groups:
            group["lr"] = self.lr
        with torch.no_grad():
            for mean, saved in zip(self.ema, state["ema"], strict=True):  # type: ignore[call-overload]
                mean.copy_(saved)


@dataclass(slots=True)
class _Captured:
    graph: torch.cuda.CUDAGraph
    inputs: dict[str, Tensor]
    outputs: dict[str, Tensor]


class Graphed:
    """Runs `step(batch, *variant)` as a CUDA graph, one for each variant and set of batch shapes; eagerly on a CPU.

    `step` returns scalars or other fixed-shape tensors. The returned tensors are overwritten by the next call of the
    same shape: clone what must last, and read values rarely (`.item()` waits for the device). The first call of a
    shape runs `warmup` real steps on that batch before it captures.
    """

    def __init__(self, step: Step, device: torch.device | str, warmup: int = 3) -> None:
        self.step = step
        self.device = torch.device(device)
        self.warmup = warmup
        self.captured: dict[Hashable, _Captured] = {}
        if self.device.type == "cuda":
            self.stream = torch.cuda.Stream(self.device)
            self.pool = torch.cuda.graph_pool_handle()

    def __call__(self, batch: Mapping[str, Tensor], *variant: Hashable) -> dict[str, Tensor]:
        if self.device.type != "cuda":
            return {k: v.detach() for k, v in self.step(dict(batch), *variant).items()}
        key = (variant, tuple((k, tuple(v.shape), v.dtype) for k, v in sorted(batch.items())))
        if key not in self.captured:
            self.captured[key] = self._capture(batch, variant)
        held = self.captured[key]
        for name, value in batch.items():
            held.inputs[name].copy_(value, non_blocking=True)
        held.graph.replay()
        return held.outputs

    def _capture(self, batch: Mapping[str, Tensor], variant: tuple[Hashable, ...]) -> _Captured:
        inputs = {k: v.detach().to(self.device, copy=True) for k, v in batch.items()}
        self.stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self.stream):
            for _ in range(self.warmup):
                last = self.step(dict(inputs), *variant)
            # Outputs live outside the pool: shapes share the pool, so a replay may reuse another shape's memory.
            outputs = {k: v.detach().clone() for k, v in last.items()}
            del last
        torch.cuda.current_stream(self.device).wait_stream(self.stream)
        torch.cuda.synchronize(self.device)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self.pool, stream=self.stream, capture_error_mode="thread_local"):
            for name, value in self.step(dict(inputs), *variant).items():
                outputs[name].copy_(value.detach())
        return _Captured(graph, inputs, outputs)
