"""Sizes of the embedded voice. The recipe trains these; packaging writes them into the model directory."""

from oscine_engine.config import DiTConfig, FlowConfig, LMConfig, PreLookahead
from oscine_engine.text.marks import VOICE_TAGS, added_tokens
from training.networks import CODES
from training.text.build_tokenizer import CHARACTERS

TEXT_ROWS = len(added_tokens()) + len(VOICE_TAGS) + len(CHARACTERS)
FIRST_VOICE_TAG = len(added_tokens())
SPACE = FIRST_VOICE_TAG + len(VOICE_TAGS)
END_OF_PROMPT = added_tokens().index("<|endofprompt|>")

LM = LMConfig(
    hidden_size=256,
    num_hidden_layers=8,
    num_attention_heads=4,
    num_key_value_heads=2,
    intermediate_size=1024,
    vocab_size=TEXT_ROWS,
    speech_token_size=CODES,
    decoder_rows=CODES + 200,
)

FLOW = FlowConfig(
    vocab_size=CODES,
    pre_lookahead=PreLookahead(in_channels=80, channels=256),
    dit=DiTConfig(dim=256, depth=6, heads=4, dim_head=64, ff_mult=2),
)
