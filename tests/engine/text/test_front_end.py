"""What is said for what is written."""

import pytest

from oscine_engine.text.front_end import FrontEnd, language, speakable


def said(front_end: FrontEnd, text: str) -> str:
    """Marks without brackets, parted by blanks; / is the blank between words."""
    marks = front_end.tokenizer.decode(front_end.whole(text))
    return marks.replace("[", "").replace(" ", "/ ").replace("]", " ").strip()


@pytest.mark.parametrize(
    ("written", "spoken"),
    [
        ("150倍", "一百五十倍"),
        ("这座桥站了200年，建于1998年。", "这座桥站了两百年，建于一九九八年。"),
        ("大约30%的人同意", "大约百分之三十的人同意"),
        ("全长1,234,567米", "全长一百二十三万四千五百六十七米"),
        ("单价3,080.50元", "单价三千零八十点五元"),
        ("请拨0571-00001111", "请拨零五七一，零零零零一一一一"),
        ("我有2个苹果和12个梨", "我有两个苹果和十二个梨"),
        ("时间8:05", "时间八点零五分"),
        ("Ｈｅｌｌｏ，１２", "hello, twelve"),
        ("We can’t pay 250,000", "we can't pay two hundred fifty thousand"),
        ("It costs $98.06 or £1.", "it costs ninety eight dollars and six cents or one pound"),
        ("$5 million", "five million dollars"),
        ("By 1397 it had 1397", "by thirteen ninety seven it had one thousand three hundred ninety seven"),
        ("spam came 7pm on 02/03/2025", "spam came seven p m on february third twenty twenty five"),
        ("Mr. Lee met Dr. Wu at 8:05", "mister lee met doctor wu at eight oh five"),
        ("on the U.S. side", "on the u s side"),
        ("the 21st, 3.5km and 50%", "the twenty first, three point five kilometers and fifty percent"),
        ("info@example.travel", "info at example dot travel"),
        ("docs.example.cafe/setup_2", "docs dot example dot cafe slash setup underscore two"),
        ("Ticket No. 5", "ticket number five"),
        ("room 12.", "room twelve."),
        ("well-known and/or Wi-Fi", "well known and or wifi"),
        ("Wait... what?!", "wait. what?"),
        ("it’s <b>bold</b> 🙂 now", "it's bold now"),
        ("there.How", "there. how"),
        ("(maybe) — or not", "maybe, or not"),
        ("Great :-)", "great."),
        ("First part,", "first part, "),
    ],
)  # fmt: skip
def test_written_and_spoken_forms_give_the_same_ids(phones: FrontEnd, written: str, spoken: str) -> None:
    assert phones.whole(written) == phones.whole(spoken)


@pytest.mark.parametrize(
    ("text", "marks"),
    [
        ("Hello, world", "HH AH0 L OW1 ,W ER1 L D ."),
        ("read it", "R IY1 D / IH1 T ."),
        ("I have read it", "AY1 / HH AE1 V / R EH1 D / IH1 T ."),
        ("GPUs", "JH IY1 / P IY1 / Y UW1 Z ."),
        ("A cat", "AH0 / K AE1 T ."),
        ("T, A", "T IY1 ,EY1 ."),
        ("At six p m", "AE1 T / S IH1 K S / P IY1 / EH1 M ."),
        ("你好", "n í h ǎo ."),
        ("不对", "b ú d uì ."),
        ("一个人", "y í g è r én ."),
        ("第一", "d ì y ī ."),
        ("银行行长", "y ín h áng h áng zh ǎng ."),
        ("谢谢", "x iè x i e ."),
        ("我用GPU", "w ǒ y òng / JH IY1 / P IY1 / Y UW1 ."),
        ("[HH][AH0][L][OW1] you", "HH AH0 L OW1 / Y UW1 ."),
        ("[j][ǐ]", "j ǐ ."),
        ("[AH]", "AH0 ."),
        ("[laughter]好", "h ǎo ."),
        ("<|im_start|>hey<|endofprompt|><|voice1|>", "HH EY1 ."),
        ("<|im_<|im_start|>start|>hey", "IH1 M / S T AA1 R T / HH EY1 ."),
        ("太好了👍🏽👨‍👩‍👧！", "t ài h ǎo l e !"),
    ],
)
def test_marks(phones: FrontEnd, text: str, marks: str) -> None:
    assert said(phones, text) == marks


@pytest.mark.parametrize(
    "text", ["", " ", "……", "?!?!", "\u200b\u3000", "，", "🙂", ":-) ;-)", "<|im_start|>", "カタカナ"]
)
def test_nothing_to_say_gives_no_ids(phones: FrontEnd, text: str) -> None:
    assert not phones.speakable(text)
    assert phones.whole(text) == []


@pytest.mark.parametrize("text", ["a", "7", "好", "[j][ǐ]", "… ok"])
def test_speakable(text: str) -> None:
    assert speakable(text)


def test_other_scripts_are_speakable_for_a_byte_level_checkpoint(plain: FrontEnd) -> None:
    assert plain.speakable("カタカナ")
    assert plain.tokenizer.decode(plain.whole("カタカナ")) == "カタカナ."


@pytest.mark.parametrize(
    "text", ["Привет, это 2024 год.", "สวัสดีครับ ราคา 50 บาท.", "नमस्ते दुनिया.", "안녕하세요 3개.", "می‌خواهم."]
)
def test_other_scripts_pass_untouched(plain: FrontEnd, text: str) -> None:
    assert plain.tokenizer.decode(plain.whole(text)) == text


def test_the_voice_of_marks_says_which_letters_it_leaves_out(phones: FrontEnd, plain: FrontEnd) -> None:
    text = "Say Привет 2024 now, π"
    assert phones.unread(text) == "Привет"
    assert phones.whole(text) == phones.whole("Say twenty twenty four now, pi")
    assert plain.unread(text) == phones.unread("plain 中文") == ""


def test_language() -> None:
    assert language("我用GPU训练模型") == "zh"
    assert language("I like 咖啡 a lot") == "en"


@pytest.mark.parametrize(
    ("text", "normalised"),
    [
        ("Hello,   world", "Hello, world."),
        ("I have 3 cats & 2 dogs!", "I have three cats and two dogs!"),
        ("价格是3.5元", "价格是三点五元。"),
        ("[breath]好吧<|endofprompt|>，走", "[breath]好吧，走。"),
    ],
)
def test_plain_text_is_normalised_and_encoded(plain: FrontEnd, text: str, normalised: str) -> None:
    assert plain.tokenizer.decode(plain.whole(text)) == normalised
