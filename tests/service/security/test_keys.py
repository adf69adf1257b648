"""API keys and the file they stand in."""

import contextlib
import json
import os
import re
import resource
import stat
import subprocess
import sys
import tempfile
from dataclasses import fields, replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oscine_engine.errors import InvalidInput
from oscine_service.cli.main import main
from oscine_service.security import keys
from oscine_service.security.keys import LOOK_S, Key, KeyBook
from oscine_service.security.principal import Grant

NAMES = st.sampled_from([each.name for each in fields(Key)])


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "keys.json"


def put(file: Path, *made: Key) -> None:
    with keys.changing(file) as found:
        found.clear()
        found.update({key.name: key for key in made})


def key(name: str = "anna", secret: str = "one", **more: object) -> Key:
    return replace(Key(name, keys.digest(secret)), **more)  # type: ignore[arg-type]


def test_what_was_written_is_read_again(file: Path) -> None:
    anna = key(owner="anna", streams=2, voices=("fl*", "x"), grants=("speak",), expires="2100-01-01T00:00:00+00:00")
    put(file, anna, key("ben", "two", most_voices=0))
    assert keys.read(file) == {"anna": anna, "ben": key("ben", "two", most_voices=0)}
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert sorted(os.listdir(file.parent)) == ["keys.json", "keys.json.lock"]


def test_who_may_read_a_file_is_as_before_after_a_change(file: Path) -> None:
    put(file, key())
    file.chmod(0o640)
    owners = (12345, 23456) if os.geteuid() == 0 else (os.geteuid(), os.getegid())
    os.chown(file, *owners)
    put(file, key("ben", "two"))
    about = file.stat()
    assert (stat.S_IMODE(about.st_mode), about.st_uid, about.st_gid) == (0o640, *owners)


def test_a_key_without_an_owner_is_its_own(file: Path) -> None:
    file.write_text(json.dumps({"keys": [{"name": "anna", "sha256": keys.digest("one")}]}))
    assert keys.read(file)["anna"].principal.owner == "anna"


def test_a_key_is_long_and_never_stored(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["keys", "add", "anna", "--keys", str(file), "--streams", "3", "--days", "1"]) == 0
    said = capsys.readouterr()
    secret = said.out.strip()
    assert secret.startswith("osk_") and len(secret) == 47
    assert secret not in file.read_text() and secret not in said.err
    found = KeyBook(file).find(secret)
    assert found is not None and (found.name, found.owner, found.streams) == ("anna", "anna", 3)
    assert Grant.METRICS not in found.grants and Grant.SPEAK in found.grants
    assert KeyBook(file, clock=lambda: 4e9).find(secret) is None, "it expires"
    assert main(["keys", "add", "anna", "--keys", str(file)]) == 1
    assert "already" in capsys.readouterr().err
    assert main(["keys", "--keys", str(file)]) == 0
    assert "anna  may speak, voices, tokens; owner 'anna'; 3 streams; until 20" in capsys.readouterr().out
    assert main(["keys", "remove", "anna", "--keys", str(file)]) == 0
    assert KeyBook(file).find(secret) is None
    assert main(["keys", "remove", "anna", "--keys", str(file)]) == 1
    for option in ("--voices", "--grants"):
        for empty in ("", " , ", "speak,"):
            assert main(["keys", "add", "x", "--keys", str(file), option, empty]) == 1
            assert f"{option}: " in capsys.readouterr().err
    for days in ("0", "4000000"):
        assert main(["keys", "add", "x", "--keys", str(file), "--days", days]) == 1
        assert "from 1 to 36500" in capsys.readouterr().err
    assert main(["keys", "add", "x", "--keys", str(file), "--grants", "speak,fly"]) == 1
    assert "fly" in capsys.readouterr().err


def test_a_file_that_cannot_be_written_stays_as_it_was_and_is_named(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    with keys.changing(path) as held:
        held["anna"] = Key("anna", keys.digest("a key"))
    before, usual = path.read_bytes(), resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, usual[1]))
    try:
        with pytest.raises(OSError, match=re.escape(str(path))), keys.changing(path) as held:
            held["bob"] = Key("bob", keys.digest("another"))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, usual)
    assert path.read_bytes() == before
    assert {each.name for each in tmp_path.iterdir()} == {"keys.json", "keys.json.lock"}


def test_keys_added_at_the_same_time_are_all_there(file: Path) -> None:
    program = "import sys; from oscine_service.cli import main; sys.exit(main(sys.argv[1:]))"
    adding = [
        subprocess.Popen([sys.executable, "-c", program, "keys", "add", f"k{number}", "--keys", str(file)])
        for number in range(4)
    ]
    assert [process.wait(60) for process in adding] == [0] * 4
    assert sorted(keys.read(file)) == ["k0", "k1", "k2", "k3"]


def test_a_change_counts_without_a_restart(file: Path) -> None:
    clock = Clock()
    put(file, key())
    book = KeyBook(file, ticks=clock)
    assert book.find("one") is not None and book.find("two") is None
    put(file, key("ben", "two"))
    assert book.find("one") is not None, "it was looked at just now"
    clock.now += LOOK_S
    assert book.find("one") is None and book.named("anna") is None
    assert book.find("two") is not None and book.named("ben") is not None


@pytest.mark.parametrize("damaged", ["{", '{"keys": [{"name": "x"}]}', None])
def test_a_damaged_file_leaves_the_keys_as_they_were(
    file: Path, damaged: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    clock = Clock()
    put(file, key())
    book = KeyBook(file, ticks=clock)
    if damaged is None:
        file.unlink()
    else:
        file.write_text(damaged)
    for _ in range(3):
        clock.now += LOOK_S
        assert book.find("one") is not None
    assert len(caplog.records) == 1 and "still count" in caplog.text
    file.unlink(missing_ok=True)
    put(file, key("ben", "two"))
    clock.now += LOOK_S
    assert book.find("one") is None and book.find("two") is not None


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ({}, "a key has a name"),
        ({"name": "x"}, "a key has a name"),
        ({"name": "x", "sha256": "00"}, "64 hexadecimal"),
        ({"name": "x", "sha256": "0" * 64, "stream": 1}, "unknown: stream"),
        ({"name": "x", "sha256": "0" * 64, "streams": 0}, "streams must be a whole number from 1 up"),
        ({"name": "x", "sha256": "0" * 64, "streams": True}, "streams must be a whole number"),
        ({"name": "x", "sha256": "0" * 64, "characters_per_minute": 1.5}, "characters_per_minute must be"),
        ({"name": "x", "sha256": "0" * 64, "grants": ["all"]}, "grants all: there are speak"),
        ({"name": "x", "sha256": "0" * 64, "voices": [1]}, "voices must be a list of texts"),
        ({"name": "x", "sha256": "0" * 64, "voices": "team-*"}, "voices must be a list of texts"),
        ({"name": "x", "sha256": "0" * 64, "voices": None}, "voices must be a list of texts"),
        ({"name": "x", "sha256": "0" * 64, "voices": []}, "voices: the list is empty"),
        ({"name": "x", "sha256": "0" * 64, "voices": ["flora", " "]}, "voices: a pattern is empty"),
        ({"name": "x", "sha256": "0" * 64, "expires": "soon"}, "expires must be a date"),
        ({"name": "", "sha256": "0" * 64}, "a name of printable"),
        ([], "a key has a name"),
    ],
)
def test_what_is_wrong_in_a_file_is_named(file: Path, entry: object, words: str) -> None:
    file.write_text(json.dumps({"keys": [entry]}))
    with pytest.raises(InvalidInput) as refused:
        KeyBook(file)
    assert words in str(refused.value) and str(file) in str(refused.value)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES | st.text(max_size=8), inner, max_size=6),
    max_leaves=20,
)


@given(st.fixed_dictionaries({"keys": st.lists(JSON, max_size=3)}) | JSON)
def test_whatever_a_file_holds_is_keys_or_is_refused(document: object) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "keys.json"
        path.write_text(json.dumps(document))
        with contextlib.suppress(InvalidInput):
            for key in keys.read(path).values():
                assert key.principal.name == key.name


def test_a_file_of_something_else_is_refused(file: Path) -> None:
    for text, words in (
        ("[]", "an object with a list"),
        ("{", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ('{"keys": 1}', "an object with a list"),
    ):
        file.write_text(text)
        with pytest.raises(InvalidInput, match=words):
            keys.read(file)
    file.write_text(json.dumps({"keys": [{"name": "x", "sha256": "0" * 64}] * 2}))
    with pytest.raises(InvalidInput, match="two keys"):
        keys.read(file)
    file.write_text(json.dumps({"keys": [{"name": name, "sha256": "0" * 64} for name in ("x", "y")]}))
    with pytest.raises(InvalidInput, match="'x' and 'y' have the same sha256"):
        keys.read(file)
    with pytest.raises(InvalidInput, match="oscine keys add"):
        keys.read(file.with_name("none.json"))


def test_what_expires_without_a_zone_expires_by_universal_time() -> None:
    assert key(expires="1970-01-01T00:00:10").expires_at == key(expires="1970-01-01T01:00:10+01:00").expires_at == 10
