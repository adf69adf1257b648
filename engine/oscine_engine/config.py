"""Sizes and rules of a model. Defaults are those of the released Fun-CosyVoice3-0.5B.

`from_reference` reads one section of a parity folder's config.json; checkpoint.hyperyaml reads a model directory.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal, Self, TypeVar

from oscine_engine.errors import CheckpointError

FrontEnd = Literal["plain", "phones"]


def _frozen(value: Any) -> Any:
    return tuple(_frozen(item) for item in value) if isinstance(value, list | tuple) else value


S = TypeVar("S", bound="_Section")


class _Section:
    """Adds `from_reference` to a dataclass whose field names are the keys of a reference section."""

    __slots__ = ()

    @classmethod
    def from_reference(cls, section: Mapping[str, Any]) -> Self:
        """Take every known key of `section`, nested sections included; absent keys keep their defaults."""
        return _read(cls, section)


def _read(kind: type[S], section: Mapping[str, Any]) -> S:
    values: dict[str, Any] = {}
    for item in fields(kind):  # type: ignore[arg-type]
        if item.name in section:
            nested: Any = item.default_factory
            is_section = isinstance(nested, type) and issubclass(nested, _Section)
            value = section[item.name]
            values[item.name] = nested.from_reference(value) if is_section else _frozen(value)
    return kind(**values)


@dataclass(frozen=True, slots=True)
class LMConfig(_Section):
    """The Qwen2 trunk and the speech tables of the language model (a Qwen2 config.json has the first eight keys)."""

    hidden_size: int = 896
    num_hidden_layers: int = 24
    num_attention_heads: int = 14
    num_key_value_heads: int = 2
    intermediate_size: int = 4864
    vocab_size: int = 151936
    rope_theta: float = 1e6
    rms_norm_eps: float = 1e-6
    speech_token_size: int = 6561
    decoder_rows: int = 6761

    def __post_init__(self) -> None:
        if self.hidden_size % self.num_attention_heads or self.num_attention_heads % self.num_key_value_heads:
            raise CheckpointError(
                f"language model: hidden_size {self.hidden_size} must be a multiple of num_attention_heads "
                f"{self.num_attention_heads}, and that one of num_key_value_heads {self.num_key_value_heads}"
            )
        if self.decoder_rows < self.speech_token_size + 4:
            raise CheckpointError(
                f"language model: decoder_rows {self.decoder_rows} must be at least speech_token_size + 4 = "
                f"{self.speech_token_size + 4}"
            )

    @classmethod
    def from_reference(cls, section: Mapping[str, Any]) -> Self:
        """The "llm" section, whose trunk sizes are nested under "qwen2"."""
        return _read(cls, {**section.get("qwen2", {}), **section})

    @property
    def head_dim(self) -> int:
        return self.hidden_size // self.num_attention_heads

    @property
    def sos(self) -> int:
        return self.speech_token_size

    @property
    def eos(self) -> int:
        return self.speech_token_size + 1

    @property
    def task_id(self) -> int:
        return self.speech_token_size + 2

    @property
    def fill(self) -> int:
        return self.speech_token_size + 3


@dataclass(frozen=True, slots=True)
class PreLookahead(_Section):
    """The two convolutions over tokens that look `pre_lookahead_len` tokens ahead."""

    in_channels: int = 80
    channels: int = 1024


@dataclass(frozen=True, slots=True)
class DiTConfig(_Section):
    """The diffusion transformer; `static_chunk_size` in mel frames."""

    dim: int = 1024
    depth: int = 22
    heads: int = 16
    dim_head: int = 64
    ff_mult: int = 2
    mel_dim: int = 80
    mu_dim: int = 80
    spk_dim: int = 80
    out_channels: int = 80
    static_chunk_size: int = 50
    num_decoding_left_chunks: int = -1
    conv_pos_kernel: int = 31
    conv_pos_groups: int = 16


@dataclass(frozen=True, slots=True)
class CFMConfig(_Section):
    """The flow-matching solver. `noise_shape` is [1, mel, frames], drawn after seeding with `noise_seed`."""

    solver: str = "euler"
    n_timesteps: int = 10
    t_scheduler: str = "cosine"
    sigma_min: float = 1e-6
    inference_cfg_rate: float = 0.7
    noise_seed: int = 0
    noise_shape: tuple[int, int, int] = (1, 80, 15000)


@dataclass(frozen=True, slots=True)
class FlowConfig(_Section):
    """Speech tokens to mel. Frame rates in Hz."""

    input_size: int = 80
    output_size: int = 80
    spk_embed_dim: int = 192
    vocab_size: int = 6561
    input_frame_rate: int = 25
    token_mel_ratio: int = 2
    pre_lookahead_len: int = 3
    pre_lookahead: PreLookahead = field(default_factory=PreLookahead)
    dit: DiTConfig = field(default_factory=DiTConfig)
    cfm: CFMConfig = field(default_factory=CFMConfig)


@dataclass(frozen=True, slots=True)
class ISTFTConfig(_Section):
    """Window and hop of the vocoder's spectral transforms, in samples."""

    n_fft: int = 16
    hop_len: int = 4


@dataclass(frozen=True, slots=True)
class F0Config(_Section):
    """The F0 predictor."""

    num_class: int = 1
    in_channels: int = 80
    cond_channels: int = 512


_DILATIONS = ((1, 3, 5), (1, 3, 5), (1, 3, 5))


@dataclass(frozen=True, slots=True)
class VocoderConfig(_Section):
    """HiFT: mel at 50 Hz to samples at `sampling_rate`."""

    in_channels: int = 80
    base_channels: int = 512
    nb_harmonics: int = 8
    sampling_rate: int = 24000
    nsf_alpha: float = 0.1
    nsf_sigma: float = 0.003
    nsf_voiced_threshold: float = 10.0
    upsample_rates: tuple[int, ...] = (8, 5, 3)
    upsample_kernel_sizes: tuple[int, ...] = (16, 11, 7)
    istft: ISTFTConfig = field(default_factory=ISTFTConfig)
    resblock_kernel_sizes: tuple[int, ...] = (3, 7, 11)
    resblock_dilation_sizes: tuple[tuple[int, ...], ...] = _DILATIONS
    source_resblock_kernel_sizes: tuple[int, ...] = (7, 7, 11)
    source_resblock_dilation_sizes: tuple[tuple[int, ...], ...] = _DILATIONS
    lrelu_slope: float = 0.1
    audio_limit: float = 0.99
    conv_pre_look_right: int = 4
    f0_predictor: F0Config = field(default_factory=F0Config)

    @property
    def samples_per_frame(self) -> int:
        """Samples one mel frame becomes: the upsampling rates times the iSTFT hop."""
        total = self.istft.hop_len
        for rate in self.upsample_rates:
            total *= rate
        return total


@dataclass(frozen=True, slots=True)
class SamplingConfig(_Section):
    """Repetition-aware sampling: nucleus of mass `top_p`, at most `top_k` ids; an id that fills at least
    win_size * tau_r of the last `win_size` places is redrawn without itself."""

    top_p: float = 0.8
    top_k: int = 25
    win_size: int = 10
    tau_r: float = 0.1


@dataclass(frozen=True, slots=True)
class TextRules(_Section):
    """How text and speech ids go together. `mix_ratio` is (text, speech) ids of an interleaved block; the factors
    bound the speech ids per text id."""

    mix_ratio: tuple[int, int] = (5, 15)
    min_token_text_ratio: float = 2.0
    max_token_text_ratio: float = 20.0
    front_end: FrontEnd = "plain"


RELEASED_SILENT_IDS = (1, 2, 28, 29, 55, 248, 494, 2241, 2242, 2322, 2323)
"""Speech ids of the released tokenizer that stand for silence or breath."""


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """Everything a model directory fixes. Rates in Hz.

    silent_ids: speech ids whose runs are shortened before the flow (see `guards.silent_ids`); None for the released
    ones where the vocabulary is the released one, and none in any other.
    """

    lm: LMConfig = field(default_factory=LMConfig)
    flow: FlowConfig = field(default_factory=FlowConfig)
    vocoder: VocoderConfig = field(default_factory=VocoderConfig)
    sampling: SamplingConfig = field(default_factory=SamplingConfig)
    text: TextRules = field(default_factory=TextRules)
    n_timesteps: int = 10
    sample_rate: int = 24000
    silent_ids: tuple[int, ...] | None = None

    @property
    def silence(self) -> frozenset[int]:
        """`silent_ids`, None resolved."""
        if self.silent_ids is not None:
            return frozenset(self.silent_ids)
        released = self.lm.speech_token_size == LMConfig().speech_token_size
        return frozenset(RELEASED_SILENT_IDS if released else ())

    @classmethod
    def from_reference(cls, config: Mapping[str, Any]) -> "ModelConfig":
        """A parity folder's whole config.json."""
        flow = FlowConfig.from_reference(config["flow"])
        vocoder = VocoderConfig.from_reference(config["hift"])
        return cls(
            lm=LMConfig.from_reference(config["llm"]),
            flow=flow,
            vocoder=vocoder,
            text=TextRules.from_reference(config["llm"]),
            n_timesteps=flow.cfm.n_timesteps,
            sample_rate=vocoder.sampling_rate,
        )
