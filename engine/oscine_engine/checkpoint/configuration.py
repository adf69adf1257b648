"""A model directory's cosyvoice3.yaml and CosyVoice-BlankEN/config.json, read to a ModelConfig and written from one.

Beyond the released keys there are, with their released values as defaults: under `llm`, min_token_text_ratio (2),
max_token_text_ratio (20), front_end (plain or phones) and silent_ids (those of `config.ModelConfig`); at the top level,
n_timesteps (10).
"""

import json
import math
from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, TypeVar

from oscine_engine.checkpoint import hyperyaml, layout
from oscine_engine.config import (
    CFMConfig,
    DiTConfig,
    F0Config,
    FlowConfig,
    ISTFTConfig,
    LMConfig,
    ModelConfig,
    PreLookahead,
    SamplingConfig,
    TextRules,
    VocoderConfig,
)
from oscine_engine.errors import CheckpointError

_CLASSES = {"llm": "CosyVoice3LM", "flow": "CausalMaskedDiffWithDiT", "hift": "CausalHiFTGenerator"}
_CONTROL_ROWS = 200
"""Rows of the speech tables beyond the speech ids; four are controls, the rest unused."""

T = TypeVar("T")


def read_config(files: layout.ModelFiles) -> ModelConfig:
    """Sizes and rules of a model directory. Raises CheckpointError for another architecture or a malformed value."""
    document = hyperyaml.read(files.config)
    for section, wanted in _CLASSES.items():
        target = document.target(section)
        if target.rpartition(".")[2] != wanted:
            raise CheckpointError(
                f"{files.config}: {section} is {target or 'not tagged'}; only CosyVoice3 models ({wanted}) can be run"
            )
    speech, flow, vocoder = document.section("llm"), document.section("flow"), document.section("hift")
    look_ahead = document.section("flow", "pre_lookahead_layer")
    steps = document.get("n_timesteps", default=10)
    cfm = {**document.section("flow", "decoder", "cfm_params", "content"), "n_timesteps": steps}
    config = ModelConfig(
        lm=_language_model(files.text_model / "config.json", speech),
        flow=replace(
            _checked(FlowConfig, flow, "flow"),
            pre_lookahead=_checked(PreLookahead, look_ahead, "pre_lookahead_layer"),
            dit=_checked(DiTConfig, document.section("flow", "decoder", "estimator"), "estimator"),
            cfm=_checked(CFMConfig, cfm, "cfm_params"),
        ),
        vocoder=replace(
            _checked(VocoderConfig, vocoder, "hift"),
            istft=_checked(ISTFTConfig, document.section("hift", "istft_params"), "istft_params"),
            f0_predictor=_checked(F0Config, document.section("hift", "f0_predictor"), "f0_predictor"),
        ),
        sampling=_checked(SamplingConfig, document.section("llm", "sampling"), "sampling"),
        text=_checked(TextRules, speech, "llm"),
        n_timesteps=steps,
        sample_rate=document.get("sample_rate", default=24000),
        silent_ids=_silent_ids(speech),
    )
    _validate(config, files.config)
    return config


def _language_model(path: Path, speech: Mapping[str, Any]) -> LMConfig:
    try:
        trunk = json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise CheckpointError(f"{path} is not readable JSON: {error}") from error
    if not isinstance(trunk, dict) or trunk.get("model_type", "qwen2") != "qwen2":
        raise CheckpointError(f"{path} must describe a qwen2 model")
    size = speech.get("speech_token_size", LMConfig().speech_token_size)
    _check_alike(size, LMConfig().speech_token_size, "llm.speech_token_size")
    tables = {"speech_token_size": size, "decoder_rows": size + _CONTROL_ROWS}
    config = _checked(LMConfig, {**trunk, **tables}, path.name)
    for key in ("llm_input_size", "llm_output_size"):
        if speech.get(key, config.hidden_size) != config.hidden_size:
            raise CheckpointError(f"llm.{key} is {speech[key]}, but {path} has hidden_size {config.hidden_size}")
    return config


def _silent_ids(speech: Mapping[str, Any]) -> tuple[int, ...] | None:
    if "silent_ids" not in speech:
        return None
    ids: tuple[int, ...] = _tuples(speech["silent_ids"])
    _check_alike(ids, (0,), "llm.silent_ids")
    return ids


def _checked(kind: type[T], values: Mapping[str, Any], where: str) -> T:
    """`kind` from the plain values among `values`, each like its default: see `_check_alike`."""
    default = kind()
    taken: dict[str, Any] = {}
    for item in fields(default):  # type: ignore[arg-type]
        usual = getattr(default, item.name)
        if item.name not in values or not isinstance(usual, int | float | str | tuple):
            continue
        value = _tuples(values[item.name])
        _check_alike(value, usual, f"{where}.{item.name}")
        taken[item.name] = float(value) if isinstance(usual, float) else value
    return kind(**taken)


def _check_alike(value: Any, usual: Any, name: str) -> None:
    """Raise CheckpointError unless `value` has the type of `usual`, inside tuples too, and whole numbers its sign."""
    if isinstance(usual, tuple):
        fits = isinstance(value, tuple)
        for item in value if fits else ():
            _check_alike(item, usual[0], name)
    elif isinstance(usual, float):
        fits = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    elif isinstance(usual, int):
        fits = isinstance(value, int) and not isinstance(value, bool) and (value > 0 or usual <= 0)
    else:
        fits = isinstance(value, type(usual))
    if not fits:
        raise CheckpointError(f"{name}: {value!r} does not fit; it must be like {usual!r}")


def _tuples(value: Any) -> Any:
    return tuple(_tuples(item) for item in value) if isinstance(value, list) else value


def _validate(config: ModelConfig, path: Path) -> None:
    flow, cfm, text, hift = config.flow, config.flow.cfm, config.text, config.vocoder
    chunk = flow.dit.static_chunk_size
    faults = {
        f"cfm solver {cfm.solver}, schedule {cfm.t_scheduler}: only euler and cosine are known": (
            cfm.solver != "euler" or cfm.t_scheduler != "cosine"
        ),
        "num_decoding_left_chunks must be -1 (all left context)": flow.dit.num_decoding_left_chunks >= 0,
        f"static_chunk_size {chunk} must be a multiple of token_mel_ratio": chunk % flow.token_mel_ratio != 0,
        f"n_timesteps {config.n_timesteps} must be 1 to 100": not 1 <= config.n_timesteps <= 100,
        f"flow vocab_size {flow.vocab_size} must be llm speech_token_size {config.lm.speech_token_size}": (
            flow.vocab_size != config.lm.speech_token_size
        ),
        f"front_end {text.front_end!r} must be plain or phones": text.front_end not in ("plain", "phones"),
        f"mix_ratio {text.mix_ratio} must be two positive numbers": (
            len(text.mix_ratio) != 2 or min(text.mix_ratio) < 1
        ),
        "min_token_text_ratio must be at least 0 and at most max_token_text_ratio": (
            not 0 <= text.min_token_text_ratio <= text.max_token_text_ratio
        ),
        f"silent_ids must be speech ids, 0 to {config.lm.speech_token_size - 1}": any(
            not 0 <= speech_id < config.lm.speech_token_size for speech_id in config.silence
        ),
        "hift: each list of kernel sizes must be as long as the list of rates or dilations it goes with": (
            len(hift.upsample_kernel_sizes) != len(hift.upsample_rates)
            or len(hift.source_resblock_kernel_sizes) != len(hift.upsample_rates)
            or len(hift.source_resblock_dilation_sizes) != len(hift.source_resblock_kernel_sizes)
            or len(hift.resblock_dilation_sizes) != len(hift.resblock_kernel_sizes)
        ),
        f"hift samples per frame {hift.samples_per_frame} and sample_rate {config.sample_rate} must give "
        f"{flow.input_frame_rate * flow.token_mel_ratio} frames a second": (
            hift.samples_per_frame * flow.input_frame_rate * flow.token_mel_ratio != config.sample_rate
        ),
    }
    found = [text for text, wrong in faults.items() if wrong]
    if found:
        raise CheckpointError(f"{path}: {'; '.join(found)}")


def write_config(config: ModelConfig, directory: Path) -> None:
    """Write cosyvoice3.yaml and CosyVoice-BlankEN/config.json so that read_config gives `config` back."""
    (directory / layout.CONFIG).write_text(_yaml(config), encoding="utf-8")
    lm = config.lm
    trunk = {
        "architectures": ["Qwen2ForCausalLM"],
        "model_type": "qwen2",
        "hidden_size": lm.hidden_size,
        "num_hidden_layers": lm.num_hidden_layers,
        "num_attention_heads": lm.num_attention_heads,
        "num_key_value_heads": lm.num_key_value_heads,
        "intermediate_size": lm.intermediate_size,
        "vocab_size": lm.vocab_size,
        "rope_theta": lm.rope_theta,
        "rms_norm_eps": lm.rms_norm_eps,
        "tie_word_embeddings": True,
        "hidden_act": "silu",
        "max_position_embeddings": 32768,
    }
    folder = directory / layout.TEXT_MODEL
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(trunk, indent=1) + "\n", encoding="utf-8")


def _yaml(config: ModelConfig) -> str:
    lm, flow, dit, cfm = config.lm, config.flow, config.flow.dit, config.flow.cfm
    hift, text, sampling = config.vocoder, config.text, config.sampling
    silent = "" if config.silent_ids is None else f"\n    silent_ids: {list(config.silent_ids)}"
    return f"""\
sample_rate: {config.sample_rate}
llm_input_size: {lm.hidden_size}
llm_output_size: {lm.hidden_size}
spk_embed_dim: {flow.spk_embed_dim}
qwen_pretrain_path: ''
token_frame_rate: {flow.input_frame_rate}
token_mel_ratio: {flow.token_mel_ratio}
chunk_size: {dit.static_chunk_size // flow.token_mel_ratio}
num_decoding_left_chunks: {dit.num_decoding_left_chunks}
n_timesteps: {config.n_timesteps}

llm: !new:cosyvoice.llm.llm.CosyVoice3LM
    llm_input_size: !ref <llm_input_size>
    llm_output_size: !ref <llm_output_size>
    speech_token_size: {lm.speech_token_size}
    mix_ratio: {list(text.mix_ratio)}
    min_token_text_ratio: {text.min_token_text_ratio}
    max_token_text_ratio: {text.max_token_text_ratio}
    front_end: {text.front_end}{silent}
    llm: !new:cosyvoice.llm.llm.Qwen2Encoder
        pretrain_path: !ref <qwen_pretrain_path>
    sampling: !name:cosyvoice.utils.common.ras_sampling
        top_p: {sampling.top_p}
        top_k: {sampling.top_k}
        win_size: {sampling.win_size}
        tau_r: {sampling.tau_r}

flow: !new:cosyvoice.flow.flow.CausalMaskedDiffWithDiT
    input_size: {flow.input_size}
    output_size: {flow.output_size}
    spk_embed_dim: !ref <spk_embed_dim>
    output_type: 'mel'
    vocab_size: {flow.vocab_size}
    input_frame_rate: !ref <token_frame_rate>
    token_mel_ratio: !ref <token_mel_ratio>
    pre_lookahead_len: {flow.pre_lookahead_len}
    pre_lookahead_layer: !new:cosyvoice.transformer.upsample_encoder.PreLookaheadLayer
        in_channels: {flow.pre_lookahead.in_channels}
        channels: {flow.pre_lookahead.channels}
        pre_lookahead_len: {flow.pre_lookahead_len}
    decoder: !new:cosyvoice.flow.flow_matching.CausalConditionalCFM
        in_channels: {3 * flow.output_size}
        n_spks: 1
        spk_emb_dim: {dit.spk_dim}
        cfm_params: !new:omegaconf.DictConfig
            content:
                sigma_min: {cfm.sigma_min}
                solver: '{cfm.solver}'
                t_scheduler: '{cfm.t_scheduler}'
                inference_cfg_rate: {cfm.inference_cfg_rate}
        estimator: !new:cosyvoice.flow.DiT.dit.DiT
            dim: {dit.dim}
            depth: {dit.depth}
            heads: {dit.heads}
            dim_head: {dit.dim_head}
            ff_mult: {dit.ff_mult}
            mel_dim: {dit.mel_dim}
            mu_dim: {dit.mu_dim}
            spk_dim: {dit.spk_dim}
            out_channels: {dit.out_channels}
            static_chunk_size: !ref <chunk_size> * <token_mel_ratio>
            num_decoding_left_chunks: !ref <num_decoding_left_chunks>

hift: !new:cosyvoice.hifigan.generator.CausalHiFTGenerator
    in_channels: {hift.in_channels}
    base_channels: {hift.base_channels}
    nb_harmonics: {hift.nb_harmonics}
    sampling_rate: !ref <sample_rate>
    nsf_alpha: {hift.nsf_alpha}
    nsf_sigma: {hift.nsf_sigma}
    nsf_voiced_threshold: {hift.nsf_voiced_threshold}
    upsample_rates: {list(hift.upsample_rates)}
    upsample_kernel_sizes: {list(hift.upsample_kernel_sizes)}
    istft_params:
        n_fft: {hift.istft.n_fft}
        hop_len: {hift.istft.hop_len}
    resblock_kernel_sizes: {list(hift.resblock_kernel_sizes)}
    resblock_dilation_sizes: {[list(row) for row in hift.resblock_dilation_sizes]}
    source_resblock_kernel_sizes: {list(hift.source_resblock_kernel_sizes)}
    source_resblock_dilation_sizes: {[list(row) for row in hift.source_resblock_dilation_sizes]}
    lrelu_slope: {hift.lrelu_slope}
    audio_limit: {hift.audio_limit}
    conv_pre_look_right: {hift.conv_pre_look_right}
    f0_predictor: !new:cosyvoice.hifigan.f0_predictor.CausalConvRNNF0Predictor
        num_class: {hift.f0_predictor.num_class}
        in_channels: {hift.f0_predictor.in_channels}
        cond_channels: {hift.f0_predictor.cond_channels}
"""
