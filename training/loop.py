"""The loop of every stage: a budget in seconds, a cosine, checkpoints each minute, resume, a csv of losses."""

from __future__ import annotations

import argparse
import csv
import math
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from training.graphed import Update

Run = Callable[..., dict[str, Tensor]]
Batches = Iterator[tuple[dict[str, Tensor], tuple[Any, ...]]]


@dataclass(frozen=True, slots=True)
class Stage:
    """One stage's rules. Seconds are seconds of training, over restarts. The last export happens at the end."""

    name: str
    work: Path
    budget_s: float
    max_steps: int = 10**9
    warmup_steps: int = 300
    final_lr: float = 0.02
    ema_start: int = 500
    log_steps: int = 50
    save_s: float = 60.0
    valid_s: float = 45.0
    keep_best: str | None = None
    best: float = math.inf
    keep_last: bool = False

    @property
    def folder(self) -> Path:
        return self.work / self.name

    @property
    def last(self) -> Path:
        """With `keep_last`: the averaged weights of the last checkpoint, whatever their worth."""
        return self.folder / "last"

    @property
    def export(self) -> Path:
        """Where weights for inference go; `training.collect` packs this folder."""
        return self.work / "export"


def schedule(step: int, progress: float, warmup_steps: int, final: float) -> float:
    """Factor of the peak learning rate: linear warm-up by steps, then a cosine over `progress` (0 to 1) to `final`."""
    warm = min(1.0, (step + 1) / warmup_steps)
    return warm * (final + (1 - final) * 0.5 * (1 + math.cos(math.pi * min(1.0, progress))))


def save_atomic(path: Path, write: Callable[[Path], object]) -> None:
    """Let `write` fill a file beside `path`, then put it in its place at once."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + f".part{os.getpid()}")
    write(partial)
    os.replace(partial, path)


def save_weights(path: Path, module: nn.Module, dtype: torch.dtype = torch.float16) -> None:
    """Write a module's state dict as safetensors, matrices as `dtype`, the rest as it is."""
    tensors = {k: v.detach().cpu().clone().contiguous() for k, v in module.state_dict().items()}
    packed = {k: v.to(dtype) if v.is_floating_point() and v.ndim > 1 else v for k, v in tensors.items()}
    save_atomic(path, lambda p: save_file(packed, str(p)))


class Log:
    """Appends rows to a csv; columns are those of the first row."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path = path

    def row(self, values: Mapping[str, float]) -> None:
        fresh = not self.path.exists()
        with self.path.open("a", newline="", encoding="utf-8") as out:
            writer = csv.DictWriter(out, list(values))
            if fresh:
                writer.writeheader()
            writer.writerow({k: f"{v:.6g}" for k, v in values.items()})


def train(
    stage: Stage,
    updates: Sequence[Update],
    run: Run,
    batches: Batches,
    validate: Callable[[], dict[str, float]],
    export: Callable[[Path], None],
) -> dict[str, float]:
    """Train until the budget is spent; returns the last validation.

    `run(batch, *variant)` does one step and returns scalars. `validate` and `export(folder)` see the averaged weights
    of `updates`. With `keep_best`, `export` runs only when that value of a validation is the lowest yet
    and below `stage.best`. Continues from
    the stage's own checkpoint if there is one. Raises FloatingPointError when a loss stays not finite.
    """
    state_file = stage.folder / "state.pt"
    elapsed, steps, best = 0.0, 0, stage.best
    if state_file.exists():
        saved = torch.load(state_file, map_location="cpu", weights_only=True)
        for update, state in zip(updates, saved["updates"], strict=True):
            update.load_state_dict(state)
        elapsed, steps, best = saved["elapsed"], saved["steps"], saved["best"]
        print(f"{stage.name}: continuing at step {steps}, {elapsed:.0f} s", flush=True)
    peaks = [float(update.lr) for update in updates]
    losses, checks = Log(stage.folder / "train.csv"), Log(stage.folder / "valid.csv")
    began = time.monotonic() - elapsed
    next_save, next_valid = elapsed + stage.save_s, elapsed + stage.valid_s
    bad = 0

    def used() -> float:
        return time.monotonic() - began

    @contextmanager
    def averaged() -> Iterator[None]:
        for update in updates:
            update.swap_ema()
        try:
            yield
        finally:
            for update in updates:
                update.swap_ema()

    def save() -> None:
        state = {"updates": [u.state_dict() for u in updates], "elapsed": used(), "steps": steps, "best": best}
        save_atomic(state_file, lambda p: torch.save(state, p))
        if stage.keep_last:
            with averaged():
                export(stage.last)

    def check() -> dict[str, float]:
        nonlocal best
        with averaged():
            found = validate()
            improved = stage.keep_best is None or found[stage.keep_best] < best
            if improved:
                best = found[stage.keep_best] if stage.keep_best else best
                export(stage.export)
        checks.row({"step": steps, "seconds": used(), **found})
        shown = " ".join(f"{k} {v:.4g}" for k, v in found.items())
        print(f"{stage.name}: step {steps}, {used():.0f} s, {shown}{' *' if improved else ''}", flush=True)
        return found

    while (progress := max(used() / stage.budget_s, steps / stage.max_steps)) < 1:
        batch, variant = next(batches)
        if steps % 10 == 0 or steps < stage.warmup_steps:
            factor = schedule(steps, progress, stage.warmup_steps, stage.final_lr)
            for update, peak in zip(updates, peaks, strict=True):
                update.set_lr(peak * factor)
        out = run(batch, *variant)
        steps += 1
        if steps == stage.ema_start:
            for update in updates:
                update.reset_ema()
        if steps % stage.log_steps == 0:
            values = {k: float(v) for k, v in out.items()}
            losses.row({"step": steps, "seconds": used(), "lr": float(updates[0].lr), **values})
            bad = bad + 1 if not math.isfinite(sum(values.values())) else 0
            if bad >= 5:
                raise FloatingPointError(f"{stage.name}: the loss is not finite at step {steps}: {values}")
            if used() >= next_save and not bad:
                save()
                next_save = used() + stage.save_s
            if used() >= next_valid:
                check()
                next_valid = used() + stage.valid_s
    found = check()
    save()
    return found


def weighted(argument: str) -> tuple[str, float]:
    """`zh=2` as a pair. Raises argparse.ArgumentTypeError."""
    lang, _, factor = argument.partition("=")
    try:
        weight = float(factor)
    except ValueError:
        weight = math.nan
    if not lang or not 1 <= weight < math.inf:
        raise argparse.ArgumentTypeError(f"{argument!r} is no language and a factor of at least 1, such as zh=2")
    return lang, weight
