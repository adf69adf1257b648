"""Keys and tokens where clients put them, and whom they belong to."""

import base64
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oscine_engine.errors import InvalidInput
from oscine_service.security import keys
from oscine_service.security.credentials import in_headers, in_query, in_subprotocols
from oscine_service.security.errors import Forbidden, Unauthenticated
from oscine_service.security.guard import Guard
from oscine_service.security.keys import Key, KeyBook
from oscine_service.security.origins import check
from oscine_service.security.principal import ANYBODY, Grant, Principal
from oscine_service.security.tokens import PREFIX, Mint

SECRET = b"s" * 32


class Clock:
    now = 5000.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize(
    ("headers", "found"),
    [
        ({}, None),
        ({"authorization": "Bearer abc"}, "abc"),
        ({"authorization": "bearer  abc "}, "abc"),
        ({"authorization": "Token abc"}, "abc"),
        ({"authorization": "Basic YW55Ym9keTphYmM="}, "abc"),
        ({"authorization": "basic OmE6Yg=="}, "a:b"),
        ({"authorization": " "}, None),
        ({"x-api-key": "abc"}, "abc"),
        ({"xi-api-key": "abc"}, "abc"),
        ({"x-api-key": "", "xi-api-key": " abc"}, "abc"),
        ({"authorization": "Token abc", "x-api-key": "other"}, "abc"),
    ],
)
def test_a_key_is_found_where_clients_put_it(headers: dict[str, str], found: str | None) -> None:
    assert in_headers(headers) == found


@pytest.mark.parametrize(
    "value", ["abc", "Basic", "Basic YWJj", "Basic YWJjOg==", "Basic \u00e9", "Digest YTpi", "Bearer", "Bearer "]
)
def test_a_header_that_holds_no_key_is_explained(value: str) -> None:
    with pytest.raises(Unauthenticated, match="Bearer KEY"):
        in_headers({"authorization": value})


def test_an_address_may_hold_a_token_and_no_key() -> None:
    assert in_query({"token": "ost_x.y", "model": "m"}) == "ost_x.y"
    assert in_query({"single_use_token": "ost_x.y"}) == "ost_x.y"
    assert in_query({"model": "m"}) is None
    with pytest.raises(Unauthenticated, match="no key"):
        in_query({"token": "osk_secret"})


def test_subprotocols_lose_what_is_secret() -> None:
    assert in_subprotocols([]) == (None, [])
    assert in_subprotocols(["oscine.v1"]) == (None, ["oscine.v1"])
    assert in_subprotocols(["oscine.v1", "oscine.token.ost_x.y"]) == ("ost_x.y", ["oscine.v1"])
    assert in_subprotocols(["token", "abc"]) == ("abc", ["token"])


def test_a_token_is_good_until_it_expires() -> None:
    clock = Clock()
    mint = Mint(SECRET, clock)
    text, token = mint.make("anna \u00e4", 60)
    assert (token.key, token.expires) == ("anna \u00e4", 5060)
    assert text.isascii() and " " not in text and "," not in text, "it stands in headers and subprotocols"
    assert mint.read(text) == token
    clock.now = 5059.9
    assert mint.read(text) == token
    clock.now = 5060
    assert mint.read(text) is None
    for seconds in (0, -1, 3601):
        with pytest.raises(InvalidInput, match="1 to 3600"):
            mint.make("anna", seconds)


def test_a_token_of_another_secret_or_another_payload_is_none() -> None:
    mint = Mint(SECRET, Clock())
    text, _ = mint.make("anna", 60)
    assert Mint(b"t" * 32, Clock()).read(text) is None
    payload = base64.urlsafe_b64encode(json.dumps(["ben", 9**9]).encode()).rstrip(b"=").decode()
    assert mint.read(f"{PREFIX}{payload}.{text.partition('.')[2]}") is None


@given(st.text(st.characters()))
def test_what_is_no_token_is_none(text: str) -> None:
    assert Mint(SECRET).read(text) is None
    assert Mint(SECRET).read(PREFIX + text) is None


@given(st.integers(0, 200), st.integers(0, 255))
def test_a_token_with_another_character_is_none(place: int, other: int) -> None:
    mint = Mint(SECRET, Clock())
    text, _ = mint.make("anna", 60)
    place %= len(text)
    changed = text[:place] + chr(other) + text[place + 1 :]
    assert changed == text or mint.read(changed) is None


def test_a_secret_comes_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    with pytest.raises(InvalidInput, match="cannot be read"):
        Mint.of(file)
    file.write_text("short\n")
    with pytest.raises(InvalidInput, match="5 bytes"):
        Mint.of(file)
    file.write_bytes(SECRET + b"\n")
    text, token = Mint.of(file).make("anna")
    assert Mint.of(file).read(text) == token and Mint(SECRET).read(text) == token
    assert Mint.of(None).read(text) is None


def test_whose_a_credential_is(tmp_path: Path) -> None:
    file, clock = tmp_path / "keys.json", Clock()
    with keys.changing(file) as found:
        found["anna"] = Key("anna", keys.digest("one"), owner="a", streams=3, grants=("speak", "tokens"))
        found["ben"] = Key("ben", keys.digest("two"), grants=("metrics",))
    ticks = Clock()
    guard = Guard(KeyBook(file, ticks=ticks), Mint(SECRET, clock))
    anna = guard.principal("one")
    assert (anna.name, anna.owner, anna.streams, anna.token) == ("anna", "a", 3, False)
    by_token = guard.principal(guard.mint.make("anna")[0])
    assert (by_token.owner, by_token.streams, by_token.token) == ("a", 3, True)
    assert by_token.grants == {Grant.SPEAK}
    with pytest.raises(Forbidden, match="a token is not granted 'tokens'"):
        by_token.require(Grant.TOKENS)
    assert guard.principal(guard.mint.make("ben")[0]).grants == set(), "a token is granted no more than its key"
    for wrong in (None, "", "three", guard.mint.make("carl")[0], "ost_", "osk_"):
        with pytest.raises(Unauthenticated):
            guard.principal(wrong)
    token = guard.mint.make("anna")[0]
    with keys.changing(file) as found:
        del found["anna"]
    ticks.now += 2
    for gone in ("one", token):
        with pytest.raises(Unauthenticated):
            guard.principal(gone)
    assert Guard(None, Mint(SECRET)).principal("whatever") is ANYBODY


def test_voices_are_granted_by_patterns() -> None:
    some = Principal(voices=("fl*", "anna"))
    assert some.may_use("fledgling") and some.may_use("anna") and not some.may_use("annabel")
    assert not Principal(voices=("FL*",)).may_use("fledgling")
    assert Principal().may_use("anybody")


@pytest.mark.parametrize(
    ("origin", "host", "allowed", "ok"),
    [
        (None, "x:1", (), True),
        ("http://localhost:8080", "localhost:8080", (), True),
        ("http://127.0.0.1:8080", "127.0.0.1:8080", (), True),
        ("http://[::1]:8080", "[::1]:8080", (), True),
        ("http://localhost:3000", "localhost:8080", (), False),
        ("http://evil.example:8080", "evil.example:8080", (), False),
        ("https://app.example.com", "speech.example.com", ("https://app.example.com",), True),
        ("http://app.example.com", "speech.example.com", ("https://app.example.com",), False),
        ("https://app.example.com.evil.example", "x", ("https://app.example.com",), False),
        ("null", "null", (), False),
        ("http://[", "[", (), False),
        ("null", "x", ("*",), True),
        ("https://anything", "x", ("*",), True),
    ],
)
def test_pages_that_may_call(origin: str | None, host: str, allowed: tuple[str, ...], ok: bool) -> None:
    if ok:
        check(origin, host, allowed)
    else:
        with pytest.raises(Forbidden, match="--origins"):
            check(origin, host, allowed)
