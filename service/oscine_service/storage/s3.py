"""An S3-compatible bucket, through boto3 (`pip install 'oscine[s3]'`).

Where it is and who may use it is told as AWS's own tools are: AWS_ENDPOINT_URL_S3, AWS_REGION, AWS_ACCESS_KEY_ID,
AWS_SECRET_ACCESS_KEY, AWS_PROFILE, a role of the machine.
"""

import base64
import contextlib
import hashlib
import time
from collections.abc import Iterator, Mapping
from typing import Any

from oscine_engine.errors import StoreError
from oscine_service.storage.address import Address
from oscine_service.storage.bucket import Found, Listed, Taken, whole

CONNECT_S, READ_S, TRIES = 3, 10, 3
CONNECTIONS = 16
_GONE = {"NoSuchKey", "404"}
_TAKEN, _CONFLICT = 412, 409
_AGAIN_S = 0.2
_DENIED = "needs s3:ListBucket of the bucket, and s3:GetObject, s3:PutObject and s3:DeleteObject of what is in it"


class S3:
    """Raises StoreError where boto3 is not installed, or is told something it cannot use."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._prefix = f"{address.path}/" if address.path else ""
        try:
            import boto3
            from botocore.config import Config
            from botocore.exceptions import BotoCoreError
        except ImportError as error:
            raise StoreError(f"{address} needs boto3: pip install 'oscine[s3]'") from error
        config = Config(
            connect_timeout=CONNECT_S,
            read_timeout=READ_S,
            retries={"mode": "standard", "total_max_attempts": TRIES},
            max_pool_connections=CONNECTIONS,
            # What came is checked against digests of ours. Servers other than AWS's may not know its newer checksums.
            request_checksum_calculation="when_required",
            response_checksum_validation="when_required",
        )
        try:
            self._client: Any = boto3.session.Session().client("s3", config=config)
        except (BotoCoreError, ValueError) as error:
            raise StoreError(
                f"{address} cannot be used: {error}; see AWS_REGION, AWS_PROFILE, AWS_ENDPOINT_URL_S3"
            ) from error

    def read(self, key: str) -> Found | None:
        with self._named():
            try:
                answer = self._client.get_object(Bucket=self._address.place, Key=self._prefix + key)
                with contextlib.closing(answer["Body"]) as body:
                    return Found(whole(body.read, key), answer["ETag"])
            except self._client.exceptions.ClientError as error:
                if _code(error) in _GONE:
                    return None
                raise

    def write(self, key: str, data: bytes, *, new: bool = False) -> str:
        given: dict[str, Any] = {"IfNoneMatch": "*"} if new else {}
        # A server refuses what was damaged on the way.
        given["ContentMD5"] = base64.b64encode(hashlib.md5(data, usedforsecurity=False).digest()).decode()
        with self._named():
            for attempt in range(TRIES):
                try:
                    answer = self._client.put_object(
                        Bucket=self._address.place, Key=self._prefix + key, Body=data, **given
                    )
                    tag: str = answer["ETag"]
                    return tag
                except self._client.exceptions.ClientError as error:
                    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode")
                    if new and status == _TAKEN:
                        if (there := self.read(key)) is not None and there.data == data:
                            # An attempt whose answer was lost had done it.
                            return there.tag
                        raise Taken from error
                    if not (new and status == _CONFLICT and attempt < TRIES - 1):
                        raise
                    # Somebody else is writing it at this moment: who was first is known soon.
                    time.sleep(_AGAIN_S)
        raise AssertionError("the last attempt returns or raises")

    def delete(self, key: str) -> None:
        with self._named():
            self._client.delete_object(Bucket=self._address.place, Key=self._prefix + key)

    def list(self, prefix: str) -> Mapping[str, Listed]:
        found: dict[str, Listed] = {}
        with self._named():
            pages = self._client.get_paginator("list_objects_v2").paginate(
                Bucket=self._address.place, Prefix=self._prefix + prefix
            )
            for page in pages:
                # Another page, as of a proxy, would be a list of nothing, and all voices be taken for deleted.
                _ = page["IsTruncated"]
                for each in page.get("Contents", ()):
                    key = each["Key"].removeprefix(self._prefix)
                    found[key] = Listed(each["ETag"], each["LastModified"].timestamp())
        return found

    def close(self) -> None:
        self._client.close()

    @contextlib.contextmanager
    def _named(self) -> Iterator[None]:
        """Errors of boto3 as ours, with what to do."""
        from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError

        try:
            yield
        except NoCredentialsError as error:
            raise StoreError(
                f"{self._address}: no credentials; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, AWS_PROFILE, or "
                "give the machine a role"
            ) from error
        except ClientError as error:
            raise StoreError(f"{self._address}: {_explained(error)}") from error
        except BotoCoreError as error:
            raise StoreError(
                f"{self._address} cannot be reached: {error}; see AWS_ENDPOINT_URL_S3 and the network"
            ) from error
        except (StoreError, Taken):
            raise
        except Exception as error:
            # boto3 takes much for an answer: a list without tags, a page of HTML, a redirection to itself.
            raise StoreError(
                f"{self._address}: what the server answers is not of S3 ({type(error).__name__}: {error}); see "
                "AWS_ENDPOINT_URL_S3"
            ) from error


def _code(error: Any) -> str:
    return str(error.response.get("Error", {}).get("Code", ""))


def _explained(error: Any) -> str:
    match _code(error):
        case "NoSuchBucket":
            return "there is no such bucket; make it, or see AWS_ENDPOINT_URL_S3"
        case "AccessDenied" | "AllAccessDisabled" | "403":
            return f"access was denied; it {_DENIED}"
        case "InvalidAccessKeyId" | "SignatureDoesNotMatch" | "ExpiredToken" | "InvalidToken":
            return f"the credentials are not taken: {error}"
        case _:
            return f"the server refused: {error}"
