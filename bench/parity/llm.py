"""Language-model parity: every recorded step through the whole-sequence network and through the paged runner."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from bench.parity.rows import Row, compare, document, equal, missing, tensors
from oscine_engine.config import LMConfig, SamplingConfig, TextRules
from oscine_engine.lm import noise
from oscine_engine.lm.interleave import Input, Interleaver, Kind, Layout, Phase, Prompt
from oscine_engine.lm.network import SpeechLM
from oscine_engine.lm.packed import page_shape
from oscine_engine.lm.runner import LMRunner
from oscine_engine.lm.sampling import NO_ID, nucleus, repeats, sample, without
from oscine_engine.runtime.pages import PagePool

LOGITS_TOLERANCE = 1e-3
PROBS_TOLERANCE = 1e-5
PAGE_TOKENS = 16
SECTIONS = ("unistream", "bistream")
DRAWS = 4000

Case = dict[str, Any]


@torch.inference_mode()
def checks(folder: Path, config: dict[str, Any]) -> Iterator[Row]:
    """Rows for logits, hidden states and greedy ids of every case, both ways, and for the sampling cases.

    A case or tensor that is not there is a failing row. Raises FileNotFoundError if a whole file is missing.
    """
    weights_name, golden_name, trace_name = config["files"]["llm"]
    section = config["llm"]
    golden, trace = tensors(folder, golden_name), document(folder, trace_name)
    lm = SpeechLM(LMConfig.from_reference(section)).eval()
    lm.load_state_dict(tensors(folder, weights_name))
    rules = TextRules.from_reference(section)
    cases: dict[str, Case] = {}
    for name in SECTIONS:
        if not trace.get(name):
            yield missing(f"llm.{name}", f"cases of {name} in {trace_name}")
        cases |= trace.get(name, {})
    for name in sorted(_recorded(golden) - cases.keys()):
        yield missing(f"llm.{name}", f"the steps of {name} in {trace_name}")
    steps = {name: _steps(case, section) for name, case in cases.items()}
    for way, hidden in (("whole", _whole(lm, steps)), ("paged", _paged(lm, rules, steps))):
        for name, case in cases.items():
            yield from _case(f"llm.{name}.{way}", name, case, steps[name], hidden[name], lm, golden)
    layout = Layout.of(lm.config, rules)
    for name, case in trace.get("unistream", {}).items():
        yield equal(f"llm.{name}.layout", _layout(case, layout), _flat(case["flat_input_sequence"]))
    yield from _sampling(trace.get("ras"), golden)


def _recorded(golden: dict[str, Tensor]) -> set[str]:
    return {name.rsplit(".", 1)[0] for name in golden if name.endswith((".logits", ".hidden"))}


def _flat(items: list[list[Any]]) -> list[Input]:
    return [Input(Kind.TEXT if kind == "text" else Kind.SPEECH, number) for kind, number in items]


def _steps(case: Case, section: dict[str, Any]) -> list[list[Input]]:
    """Inputs of each step; the tiny models keep endofprompt's embedding in another row than its id."""
    row = {section["endofprompt_id"]: section["endofprompt_embedding_row"]}
    flat = [_flat(step["input"]) for step in case["steps"]]
    return [[Input(i.kind, row.get(i.id, i.id) if i.kind is Kind.TEXT else i.id) for i in step] for step in flat]


def _whole(lm: SpeechLM, steps: dict[str, list[list[Input]]]) -> dict[str, Tensor]:
    hidden = {}
    for name, parts in steps.items():
        inputs = [item for part in parts for item in part]
        ids = torch.tensor([item.id for item in inputs])
        text = torch.tensor([item.kind is Kind.TEXT for item in inputs])
        embeds = torch.empty(len(inputs), lm.config.hidden_size)
        embeds[text] = lm.embed_text(ids[text])
        embeds[~text] = lm.embed_speech(ids[~text])
        hidden[name] = lm(embeds[None])[0]
    return hidden


def _paged(lm: SpeechLM, rules: TextRules, steps: dict[str, list[list[Input]]]) -> dict[str, Tensor]:
    """All cases at once, the k-th step of each in one ragged forward."""
    total = sum(len(part) for parts in steps.values() for part in parts)
    pool = PagePool(total // PAGE_TOKENS + len(steps), page_shape(lm.config, PAGE_TOKENS))
    runner = LMRunner(lm, pool, SamplingConfig(), rules)
    streams = {name: runner.open(Prompt()) for name in steps}
    hidden: dict[str, list[Tensor]] = {name: [] for name in steps}
    for number in range(max(map(len, steps.values()), default=0)):
        fed = {name: parts[number] for name, parts in steps.items() if number < len(parts)}
        rows = runner.forward([(streams[name], part) for name, part in fed.items()])
        for (name, part), mine in zip(
            fed.items(), torch.split(rows, [len(part) for part in fed.values()]), strict=True
        ):
            hidden[name].append(mine)
            streams[name].length += len(part)
    return {name: torch.cat(parts) for name, parts in hidden.items()}


def _case(
    label: str,
    name: str,
    case: Case,
    steps: list[list[Input]],
    hidden: Tensor,
    lm: SpeechLM,
    golden: dict[str, Tensor],
) -> Iterator[Row]:
    ends = torch.tensor([len(part) for part in steps]).cumsum(0) - 1
    logits = lm.head(hidden[ends])
    for part, got in (("hidden", hidden), ("logits", logits)):
        wanted = golden.get(f"{name}.{part}")
        if wanted is None:
            yield missing(f"{label}.{part}", f"tensor {name}.{part}")
        else:
            yield compare(f"{label}.{part}", got, wanted, LOGITS_TOLERANCE)
    speech = logits[:, : lm.config.speech_token_size].argmax(-1).tolist()
    if f"{name}.logits" in golden:
        yield equal(f"{label}.argmax", logits.argmax(-1).tolist(), golden[f"{name}.logits"].argmax(-1).tolist())
    yield equal(f"{label}.greedy_ids", _follow(speech, case["yielded"]), case["yielded"])


def _follow(picked: list[int], yielded: list[int]) -> list[int]:
    """As much of `yielded` as `picked` spells in order; steps that returned a control id yield nothing."""
    left = iter(picked)
    count = 0
    while count < len(yielded) and yielded[count] in left:
        count += 1
    return yielded[:count]


def _layout(case: Case, layout: Layout) -> list[Input]:
    """What the interleaving table feeds when it says what was recorded."""
    prompt = Prompt(prefix=tuple(case["prompt_text"]), speech=tuple(case["prompt_speech_token"]))
    machine = Interleaver(layout, prompt, interleaved=False)
    machine.add_text(case["text"])
    machine.end_text()
    inputs = machine.take().inputs
    for said in case["yielded"]:
        if machine.phase is Phase.DONE:
            break
        machine.say(said)
        inputs += machine.take().inputs
    return inputs


def _sampling(ras: dict[str, Any] | None, golden: dict[str, Tensor]) -> Iterator[Row]:
    if ras is None or not ras.get("cases"):
        yield missing("llm.ras", "the sampling cases")
        return
    sampling = SamplingConfig(**{name: ras[name] for name in ("top_p", "top_k", "win_size", "tau_r")})
    for number, case in enumerate(ras["cases"]):
        label = f"llm.ras.case{number}"
        scores = golden.get(f"ras.case{number}.logp")
        if scores is None:
            yield missing(label, f"tensor ras.case{number}.logp")
            continue
        yield from _sampling_case(label, f"ras.case{number}", case, scores[None], sampling, golden)


def _sampling_case(
    label: str, name: str, case: Case, scores: Tensor, sampling: SamplingConfig, golden: dict[str, Tensor]
) -> Iterator[Row]:
    ids, probs, inside = nucleus(scores.softmax(-1), sampling)
    yield equal(f"{label}.nucleus_ids", ids[inside].tolist(), case["nucleus_ids"])
    yield compare(
        f"{label}.nucleus_probs", probs[inside], torch.tensor(case["nucleus_probs_before_renorm"]), PROBS_TOLERANCE
    )
    keys = torch.tensor([[noise.key(seed, 0, use) for use in (0, 1)] for seed in range(DRAWS)])
    fresh = torch.full((1, sampling.win_size), NO_ID)
    drawn = sample(scores.expand(DRAWS, -1), fresh.expand(DRAWS, -1), keys, sampling)
    yield equal(f"{label}.drawn_outside_nucleus", sorted(set(drawn.tolist()) - set(case["nucleus_ids"])), [])
    asked = {int(key): entry["repetition_branch"] for key, entry in case["per_id"].items()}
    history = torch.tensor([([NO_ID] * sampling.win_size + case["history"])[-sampling.win_size :]])
    fires = repeats(torch.tensor([list(asked)]), history, sampling)[0].tolist()
    yield equal(f"{label}.repetition", dict(zip(asked, fires, strict=True)), asked)
    for repeated in (number for number, fired in asked.items() if fired):
        row = f"fallback_probs_after_removing_{repeated}"
        wanted = golden.get(f"{name}.{row}")
        if wanted is None:
            yield missing(f"{label}.{row}", f"tensor {name}.{row}")
        else:
            got = without(scores, torch.tensor([[repeated]])).softmax(-1)[0]
            yield compare(f"{label}.{row}", got, wanted, PROBS_TOLERANCE)
