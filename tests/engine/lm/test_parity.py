"""The parity rows of the language model, on a small folder of the reference format, right and damaged."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from bench.parity.llm import checks
from bench.parity.rows import Row
from oscine_engine.config import LMConfig
from oscine_engine.lm.network import SpeechLM

QWEN = {
    "hidden_size": 24,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "intermediate_size": 16,
    "vocab_size": 30,
    "rope_theta": 1e4,
    "rms_norm_eps": 1e-6,
}
CONFIG: dict[str, Any] = {
    "files": {"llm": ["w.safetensors", "g.safetensors", "t.json"]},
    "llm": {
        "qwen2": QWEN,
        "speech_token_size": 12,
        "decoder_rows": 20,
        "mix_ratio": [2, 4],
        "endofprompt_id": 999,
        "endofprompt_embedding_row": 29,
    },
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """One case of each section, made by the network itself, and one sampling case worked out by hand."""
    torch.manual_seed(5)
    lm = SpeechLM(LMConfig.from_reference(CONFIG["llm"])).eval()
    for parameter in lm.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    golden, trace = {}, {}
    for section, name in (("unistream", "uni.one"), ("bistream", "bi.one")):
        flat = [["special:sos", 12], ["text", 999], ["text", 4], ["special:task_id", 14]]
        steps, yielded = [{"past_len": 0, "input": list(flat)}], []
        for _ in range(5):
            hidden = lm(torch.stack([_embed(lm, kind, number) for kind, number in flat])[None])[0]
            yielded.append(int(lm.head(hidden[-1])[:12].argmax()))
            flat.append(["speech", yielded[-1]])
            steps.append({"past_len": len(flat) - 1, "input": [flat[-1]]})
        hidden = lm(torch.stack([_embed(lm, kind, number) for kind, number in flat])[None])[0]
        golden |= {f"{name}.hidden": hidden, f"{name}.logits": lm.head(hidden[3:])}
        trace[section] = {
            name: {
                "prompt_text": [999],
                "text": [4],
                "prompt_speech_token": [],
                "yielded": yielded,
                "steps": steps,
                "flat_input_sequence": flat,
            }
        }
    golden["ras.case0.logp"] = torch.tensor([0.5, 0.3, 0.1, 0.1]).log()
    golden["ras.case0.fallback_probs_after_removing_1"] = torch.tensor([0.5, 0.0, 0.1, 0.1]) / 0.7
    trace["ras"] = {
        "top_p": 0.75,
        "top_k": 3,
        "win_size": 2,
        "tau_r": 0.5,
        "cases": [
            {
                "nucleus_ids": [0, 1],
                "nucleus_probs_before_renorm": [0.5, 0.3],
                "history": [0, 1, 3],
                "per_id": {"0": {"repetition_branch": False}, "1": {"repetition_branch": True}},
            }
        ],
    }
    save_file({name: value.detach().clone() for name, value in lm.state_dict().items()}, tmp_path / "w.safetensors")
    save_file({name: value.detach().clone() for name, value in golden.items()}, tmp_path / "g.safetensors")
    (tmp_path / "t.json").write_text(json.dumps(trace))
    return tmp_path


def _embed(lm: SpeechLM, kind: str, number: int) -> torch.Tensor:
    if kind == "text":
        return lm.embed_text(torch.tensor(29 if number == 999 else number))
    return lm.embed_speech(torch.tensor(number))


def failures(folder: Path) -> list[str]:
    return [row.name for row in rows(folder) if not row.ok]


def rows(folder: Path) -> list[Row]:
    return list(checks(folder, CONFIG))


def edit(folder: Path, change: Any) -> None:
    path = folder / "t.json"
    trace = json.loads(path.read_text())
    change(trace)
    path.write_text(json.dumps(trace))


def test_a_sound_folder_passes(folder: Path) -> None:
    assert failures(folder) == []
    assert len(rows(folder)) == 2 * 2 * 4 + 1 + 5


def test_a_missing_section_case_or_tensor_fails(folder: Path) -> None:
    edit(folder, lambda trace: trace.pop("bistream"))
    assert failures(folder) == ["llm.bistream", "llm.bi.one"]
    edit(folder, lambda trace: trace["unistream"].update({"uni.two": trace["unistream"]["uni.one"]}))
    assert {"llm.uni.two.whole.hidden", "llm.uni.two.paged.logits"} <= set(failures(folder))


def test_a_wrong_id_history_or_nucleus_fails(folder: Path) -> None:
    def damage(trace: Any) -> None:
        trace["bistream"]["bi.one"]["yielded"][2] += 1
        trace["unistream"]["uni.one"]["prompt_text"] = []
        trace["ras"]["cases"][0]["history"].append(2)
        trace["ras"]["cases"][0]["nucleus_ids"] = [1, 0]

    edit(folder, damage)
    assert failures(folder) == [
        "llm.bi.one.whole.greedy_ids",
        "llm.bi.one.paged.greedy_ids",
        "llm.uni.one.layout",
        "llm.ras.case0.nucleus_ids",
        "llm.ras.case0.repetition",
    ]


def test_changed_weights_fail(folder: Path) -> None:
    lm = SpeechLM(LMConfig.from_reference(CONFIG["llm"]))
    save_file({name: value.detach().clone() for name, value in lm.state_dict().items()}, folder / "w.safetensors")
    assert {"llm.uni.one.whole.hidden", "llm.bi.one.paged.logits"} <= set(failures(folder))
