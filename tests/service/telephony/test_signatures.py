"""Which calls carriers have signed. Beside what the carriers' own packages compute, see test_own_packages.py."""

import base64
import hashlib
import hmac
import json

import pytest

from oscine_service.security.errors import Unauthenticated
from oscine_service.telephony import signatures

URL = "wss://voice.example.com/v1/telephony/twilio"
SECRET = b"12345-auth-token"


def signed(url: str, secret: bytes = SECRET) -> str:
    return base64.b64encode(hmac.new(secret, url.encode(), hashlib.sha1).digest()).decode()


@pytest.mark.parametrize("url", [URL, URL + "/", URL.replace(".com/", ".com:443/")])
def test_twilio_s_spellings_of_an_address(url: str) -> None:
    signatures.twilio(SECRET)({"x-twilio-signature": signed(url)}, URL)


def test_twilio_with_a_port_of_its_own() -> None:
    url = URL.replace(".com/", ".com:8443/")
    for spelling in (url, URL):
        signatures.twilio(SECRET)({"x-twilio-signature": signed(spelling)}, url)


@pytest.mark.parametrize(
    "given",
    [
        "",
        "é",
        signed(URL, b"another"),
        signed(URL.replace("wss", "https")),
        signed(URL.replace("voice", "other")),
        signed(URL + "?call=x"),
    ],
    ids="nothing latin secret scheme host query".split(),
)
def test_what_twilio_has_not_signed(given: str) -> None:
    with pytest.raises(Unauthenticated, match=r"not signed by Twilio for wss://voice\.example\.com.*--public-url"):
        signatures.twilio(SECRET)({"x-twilio-signature": given}, URL)


@pytest.mark.parametrize("host", ["[", "[::1", "a]b", "x\u2100y"])
def test_a_host_that_cannot_be_is_not_signed(host: str) -> None:
    for check in (signatures.twilio(SECRET), signatures.plivo(SECRET)):
        with pytest.raises(Unauthenticated, match="not signed"):
            check({"x-plivo-signature-v3-nonce": "1"}, f"wss://{host}/v1/telephony/twilio?call=x")


def plivo(url: str, nonce: str, secret: bytes = SECRET) -> str:
    return base64.b64encode(hmac.new(secret, f"{url}.{nonce}".encode(), hashlib.sha256).digest()).decode()


def test_plivo_signs_with_a_nonce_and_parameters_in_order() -> None:
    check = signatures.plivo(SECRET)
    headers = {"x-plivo-signature-v3-nonce": "05429567804466091622"}
    for url, by_name in ((URL, URL), (URL + "?call=b%20c&a=1", URL + "?a=1&call=b c")):
        right = plivo(by_name, headers["x-plivo-signature-v3-nonce"])
        check({**headers, "x-plivo-signature-v3": right}, url)
        check({**headers, "x-plivo-signature-v3": f"another,{right}"}, url)
        for wrong in ({"x-plivo-signature-v3-nonce": "1"}, {"x-plivo-signature-v3-nonce": ""}):
            with pytest.raises(Unauthenticated, match="Plivo"):
                check({**headers, "x-plivo-signature-v3": right, **wrong}, url)
    with pytest.raises(Unauthenticated):
        check(headers, URL)


def token(secret: bytes = SECRET, alg: str = "HS256", **claims: object) -> str:
    parts = [{"alg": alg, "typ": "JWT"}, {"iat": 1000, "iss": "Vonage", **claims}]
    body = ".".join(base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts)
    signature = hmac.new(secret, body.encode(), hashlib.sha256).digest()
    return f"Bearer {body}.{base64.urlsafe_b64encode(signature).decode().rstrip('=')}"


@pytest.mark.parametrize(
    ("authorization", "why"),
    [
        (token(), ""),
        (token(iat=800.5), ""),
        (token(iat=600), "400 s ago, and 300 s are taken; check this machine's clock"),
        (token(iat=1400), "400 s from now"),
        (token(iat="soon"), "not signed"),
        (token(iat=None), "not signed"),
        (token(iat=10**400), "not signed"),
        (token(secret=b"another one"), "not signed by Vonage; check the signature secret"),
        (token(secret=b"another one", iat=600), "not signed"),
        (token(alg="none"), "not signed"),
        (token().replace("Bearer", "Basic"), "not signed"),
        ("Bearer a.b", "not signed"),
        ("Bearer é.é.é", "not signed"),
        ("Bearer " + "." * 100, "not signed"),
        ("", "not signed"),
    ],
    ids="good older old future text missing huge secret both none basic short latin stops nothing".split(),
)
def test_vonage_s_tokens(authorization: str, why: str) -> None:
    check = signatures.vonage(SECRET, now=lambda: 1000.0)
    if not why:
        return check({"authorization": authorization}, URL)
    with pytest.raises(Unauthenticated, match=why):
        check({"authorization": authorization}, URL)
