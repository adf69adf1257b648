"""A vocabulary of whole words, for models of random weights: as short in ids as the released one, without a file."""

import tokenizers
from tokenizers import AddedToken, Regex, decoders, models, pre_tokenizers

from oscine_engine.text.marks import VOICE_TAGS, added_tokens
from oscine_engine.text.tokenizer import QWEN2_PATTERN, Tokenizer

WORDS = tuple(
    "about after again along always apple autumn before behind better between bread bridge brother carry "
    "children cloud coffee colour corner country doctor door early evening every family farmer father field "
    "finger flower follow forest friend garden green harbour heavy horse house island journey kitchen letter "
    "light listen little market meadow middle minute money morning mother mountain music narrow never night "
    "often orange other paper people picture quiet rain river road school second silver simple sister slowly "
    "snow song spring station stone story street summer table tower train travel tree under village voice walk "
    "water weather whisper window winter woman wonder yellow young".split()
)
"""What there is to say: each is one id, as a common word of the released tokenizer is."""

IDS_PER_WORD = 8
"""Speech ids that a random model says for each text id, never more and never fewer: 0.32 s."""

_UNKNOWN = "<unknown>"


def word_tokenizer() -> Tokenizer:
    """A tokenizer that gives one id to each of WORDS, with or without the blank before it, and to each mark."""
    specials = [*added_tokens(), *VOICE_TAGS]
    entries = dict.fromkeys([*specials, _UNKNOWN, *",.?!;:'", *WORDS, *(f" {word}" for word in WORDS)])
    backend = tokenizers.Tokenizer(models.WordLevel({entry: n for n, entry in enumerate(entries)}, unk_token=_UNKNOWN))
    backend.pre_tokenizer = pre_tokenizers.Split(Regex(QWEN2_PATTERN), "isolated")
    backend.decoder = decoders.Fuse()
    backend.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in specials])
    return Tokenizer(backend)
