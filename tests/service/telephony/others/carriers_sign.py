"""What carriers' own packages sign; prints headers by carrier. Arguments: URL, secret, nonce."""

import json
import sys
import time

import jwt
from plivo.utils.signature_v3 import construct_get_url, get_signature_v3
from twilio.request_validator import RequestValidator
from vonage_jwt import verify_signature


def main(url: str, secret: str, nonce: str) -> None:
    token = jwt.encode({"iat": int(time.time()), "jti": nonce, "iss": "Vonage", "api_key": "a"}, secret, "HS256")
    assert verify_signature(token, secret)
    signed = get_signature_v3(secret.encode(), construct_get_url(url, {}).decode(), nonce)
    print(
        json.dumps(
            {
                "twilio": {"x-twilio-signature": RequestValidator(secret).compute_signature(url, {})},
                "plivo": {"x-plivo-signature-v3": signed.decode(), "x-plivo-signature-v3-nonce": nonce},
                "vonage": {"authorization": f"Bearer {token}"},
            }
        )
    )


main(*sys.argv[1:])
