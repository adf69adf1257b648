from oscine_engine.text.lexicon import Phones


def sound_out(word: str) -> Phones:
    return tuple("AH0" if c in "aeiouy" else c.upper() if c in "bdfgklmnprstvwz" else "K" for c in word)
