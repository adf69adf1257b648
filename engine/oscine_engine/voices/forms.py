"""What the language model reads before the text: CosyVoice3's prompt forms.

    form            before the text                          its speech before the new speech
    zero-shot       PERSONA, mark, transcript                the reference's
    cross-lingual   PERSONA, mark                            none: the text is in another language than the reference
    instruction     PERSONA, a space, instruction, mark      none

The mark is `<|endofprompt|>`. fledgling was trained on phones and knows no persona: its voices begin with a tag of
their own, and a voice it has not heard in training with the mark alone.
"""

from oscine_engine.config import FrontEnd
from oscine_engine.errors import InvalidInput
from oscine_engine.text.marks import END_OF_PROMPT, added_tokens, is_control

PERSONA = "You are a helpful assistant."
LONGEST_INSTRUCTION = 200
"""Characters."""


def plain(front_end: FrontEnd) -> str:
    """Before a zero-shot or cross-lingual text."""
    return (PERSONA if front_end == "plain" else "") + END_OF_PROMPT


def instructed(front_end: FrontEnd, instruction: str) -> str:
    """Before a text to be said as `instruction` wants it ("Say it in Sichuanese.", "Whisper.").

    Raises InvalidInput for one that is empty, too long or holds control marks, and for a model that takes none.
    """
    if front_end != "plain":
        raise InvalidInput(
            "instruction: this model takes no instructions, for it was trained to read only; leave the instruction out"
        )
    wanted = " ".join(instruction.split())
    if not wanted:
        raise InvalidInput("instruction: it is empty; say how to speak, or leave it out")
    if len(wanted) > LONGEST_INSTRUCTION:
        raise InvalidInput(f"instruction: {len(wanted)} characters; at most {LONGEST_INSTRUCTION} are taken")
    if any(token in wanted for token in added_tokens() if is_control(token)) or "<|" in wanted:
        raise InvalidInput("instruction: it holds a control mark (<|...|>), which only the service may write")
    return f"{PERSONA} {wanted}{END_OF_PROMPT}"
