"""Words written alike and spoken differently, told apart by the word in front only, so that streaming need not wait."""

from oscine_engine.text.lexicon import Phones

_DETERMINERS = frozenset(
    "a an the this that my your his her its our their no any some each every another which whose new old good bad "
    "first second last next of in for with on".split()
)
_PERFECT = frozenset(
    "have has had i've you've we've they've he's she's was were is are been be being already just".split()
)
_VERBAL = frozenset(
    "to will would can could should may might must do does did not don't doesn't didn't won't can't cannot let let's "
    "i you we they who please i'll you'll we'll they'll and".split()
)
_DEGREE = frozenset("too so very quite is was are were be been am stay get got how really as that's it's".split())

# word: (words in front that select it, reading then, reading otherwise); "" keeps the dictionary's own.
_TABLE: dict[str, tuple[frozenset[str], str, str]] = {
    "read": (_PERFECT, "R EH1 D", "R IY1 D"),
    "use": (_DETERMINERS, "Y UW1 S", "Y UW1 Z"),
    "uses": (_DETERMINERS - {"that"}, "Y UW1 S IH0 Z", "Y UW1 Z IH0 Z"),
    "close": (_DEGREE, "K L OW1 S", "K L OW1 Z"),
    "live": (_VERBAL | {"people", "families"}, "L IH1 V", "L AY1 V"),
    "lives": (
        frozenset({"he", "she", "who", "it", "that", "family", "sister", "brother", "mother", "father"}),
        "L IH1 V Z",
        "L AY1 V Z",
    ),
    "record": (_VERBAL, "R IH0 K AO1 R D", "R EH1 K ER0 D"),
    "present": (frozenset({"to", "will", "can", "should"}), "P R IY0 Z EH1 N T", "P R EH1 Z AH0 N T"),
    "object": (_VERBAL, "AH0 B JH EH1 K T", "AA1 B JH EH0 K T"),
    "project": (frozenset({"to", "will", "can"}), "P R AH0 JH EH1 K T", "P R AA1 JH EH0 K T"),
    "produce": (frozenset({"fresh", "the", "of", "local"}), "P R OW1 D UW0 S", "P R AH0 D UW1 S"),
    "refund": (frozenset({"to", "will", "can", "we", "i'll", "we'll"}), "R IH0 F AH1 N D", "R IY1 F AH2 N D"),
    "contract": (frozenset({"to", "will"}), "K AH0 N T R AE1 K T", "K AA1 N T R AE2 K T"),
    "increase": (_DETERMINERS, "IH1 N K R IY2 S", "IH0 N K R IY1 S"),
    "wind": (frozenset({"to", "will", "and", "i"}), "W AY1 N D", "W IH1 N D"),
    "tear": (frozenset({"a", "single", "one"}), "T IH1 R", "T EH1 R"),
    "tears": (frozenset({"it", "he", "she"}), "T EH1 R Z", "T IH1 R Z"),
    "lead": (frozenset({"of", "contains", "with", "like"}), "L EH1 D", "L IY1 D"),
    "separate": (_VERBAL, "S EH1 P ER0 EY2 T", "S EH1 P R AH0 T"),
    "house": (frozenset({"to"}), "HH AW1 Z", "HH AW1 S"),
    "excuse": (_DETERMINERS, "IH0 K S K Y UW1 S", "IH0 K S K Y UW1 Z"),
    "estimate": (_VERBAL, "EH1 S T AH0 M EY2 T", "EH1 S T AH0 M AH0 T"),
    "content": (_DEGREE, "K AH0 N T EH1 N T", "K AA1 N T EH0 N T"),
    "minute": (frozenset(), "", "M IH1 N AH0 T"),
    "desert": (frozenset({"to"}), "D IH0 Z ER1 T", "D EH1 Z ER0 T"),
    "attribute": (_VERBAL, "AH0 T R IH1 B Y UW0 T", "AE1 T R AH0 B Y UW2 T"),
    "permit": (_DETERMINERS, "P ER1 M IH2 T", "P ER0 M IH1 T"),
    "subject": (frozenset({"to", "will"}), "S AH0 B JH EH1 K T", "S AH1 B JH IH0 K T"),
}


def reading(word: str, before: str) -> Phones | None:
    """Phones of a heteronym after the word `before` (both lower case), or None for any other word."""
    entry = _TABLE.get(word)
    if entry is None:
        return None
    triggers, selected, otherwise = entry
    return tuple((selected if before in triggers else otherwise).split())
