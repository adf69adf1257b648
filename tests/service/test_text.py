"""`oscine text` as people run it."""

import subprocess
import sys
from pathlib import Path

import pytest

from oscine_service.cli import main

COMMAND = [sys.executable, "-m", "oscine_service.cli", "text"]


def test_a_file_gives_a_line_for_each_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "lines.txt"
    file.write_text("It is 3.5 km.\n\n价格12.5元\n[breath]好的，```走\n# Menu", encoding="utf-8")
    assert main(["text", str(file)]) == 0
    assert capsys.readouterr().out == "It is three point five kilometers.\n\n价格十二点五元\n[breath]好的，\nMenu\n"


def test_standard_input_is_one_text_and_said_as_it_arrives() -> None:
    with subprocess.Popen([*COMMAND, "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as running:
        assert running.stdin is not None and running.stdout is not None
        running.stdin.write(b"Hello there 3")
        running.stdin.flush()
        assert running.stdout.read(11) == b"Hello there"
        rest, _ = running.communicate(".5\n```\ncode 1\n```\n2二".encode())
    assert rest.decode() == " three point five\n\n\n\n二二\n"


def test_what_the_embedded_voice_leaves_out_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "lines.txt"
    file.write_text("Hello мир 世界\n[breath]<strong>Yes</strong> مرحبا\nмир\n", encoding="utf-8")
    assert main(["text", str(file)]) == 0
    of_file = capsys.readouterr()
    assert of_file.out == "Hello мир 世界\n[breath]<strong>Yes</strong> مرحبا\nмир\n"
    assert "leaves out 'мир', 'مرحبا', '[breath]', '<strong>', '</strong>'; the released" in of_file.err
    said = subprocess.run([*COMMAND, "-"], input=file.read_bytes(), capture_output=True, check=True)
    assert said.stderr.decode() == of_file.err
    file.write_text("Hello 世界, it is 5 km.\n", encoding="utf-8")
    assert main(["text", str(file)]) == 0
    assert capsys.readouterr().err == ""


def test_a_lexicon_says_how_words_are_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text, lexicon = tmp_path / "text.txt", tmp_path / "lexicon.tsv"
    text.write_text("Ask Nguyen.\n银行\n", encoding="utf-8")
    lexicon.write_text("Nguyen\twin\n\n行\t[h][áng]\n", encoding="utf-8")
    assert main(["text", "--lexicon", str(lexicon), str(text)]) == 0
    assert capsys.readouterr().out == "Ask win.\n银[h][áng]\n"
    lexicon.write_text("Nguyen win\n", encoding="utf-8")
    assert main(["text", "--lexicon", str(lexicon), str(text)]) == 1
    assert "line 1: a word, a tab" in capsys.readouterr().err


def test_a_file_that_is_no_text_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "noise.bin"
    file.write_bytes(b"abc\xff")
    assert main(["text", str(file)]) == 1
    assert "not valid UTF-8 at byte 3" in capsys.readouterr().err
    assert main(["text", "Hello there"]) == 1
    said = capsys.readouterr().err
    assert "cannot read the text 'Hello there': No such file" in said and "oscine text -" in said
    assert main(["text", "-", "--lexicon", str(tmp_path / "none.txt")]) == 1
    assert "cannot read the lexicon" in capsys.readouterr().err
