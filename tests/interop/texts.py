"""What clients say. Sentences of every day, each of words that no other has in its place."""

TURNS = {
    "en": (
        "Please bring the blue folder to the meeting tomorrow. Winter starts early in the mountains.",
        "Nobody knew where the children had gone.",
        "The train to the city leaves in the morning.",
    ),
    "zh": (
        "今天下午三点，我们在学校门口见面。外面下雨了，记得带伞。",
        "明天早上我要坐火车去北京。",
        "他每天早上都去公园跑步。",
    ),
}
"""By language: two turns, and one behind an interruption."""

_SENTENCES = {
    "en": (
        "The river runs past the old mill and under the stone bridge. ",
        "A farmer was counting his sheep on the green hill behind the house. ",
        "Two boats lay in the harbour, and the sailors were painting them white. ",
        "In the market people sold apples, bread and yellow flowers. ",
    ),
    "zh": (
        "河水从老房子旁边流过，一直流到桥下面。",
        "山上有一个农民，他正在数自己的羊。",
        "港口里停着两条船，工人们把它们刷成白色。",
        "市场上的人很多，有人卖苹果，有人卖花。",
    ),
}
LONG = {"en": "".join(_SENTENCES["en"]) * 9, "zh": "".join(_SENTENCES["zh"]) * 9}
"""More than two minutes, which nobody hears out."""
LONG_S = {language: len(text) / (20 if language == "en" else 6) for language, text in LONG.items()}
"""How long that is at the least, said fast."""
