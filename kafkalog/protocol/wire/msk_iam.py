"""The SASL mechanism AWS_MSK_IAM of Amazon MSK, the client's side.

The client sends a request that is signed by Signature Version 4, as JSON; the README of `aws/aws-msk-iam-auth`
describes it. The secret key itself does not leave the client.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from dataclasses import dataclass, field
from datetime import datetime
from urllib.parse import quote

from kafkalog.protocol.wire.errors import AuthenticationFailedError

SERVICE = "kafka-cluster"
EXPIRES_S = 900
"""The time for which a signed request can be used; brokers accept no other value."""
_ACTION = f"{SERVICE}:Connect"
_ALGORITHM = "AWS4-HMAC-SHA256"
_VERSION = "2020_10_22"


@dataclass(frozen=True)
class AwsCredentials:
    """An access key, with the session token of temporary credentials."""

    access_key: str
    secret_key: str = field(repr=False)
    session_token: str | None = field(default=None, repr=False)


class MskIam:
    """AWS_MSK_IAM: proves that the client has the secret key of an AWS identity.

    Args:
        host: The broker's host, without port.
        region: The broker's region, such as `eu-west-1`.
        credentials: The identity's access key.
        user_agent: The client's name, which AWS logs.
        now: The present time, in UTC.
    """

    name = "AWS_MSK_IAM"
    remedy = (
        "check the identity's policy (kafka-cluster:Connect), the credentials that AWS's tools would use here, the "
        "options of IAMLoginModule in sasl.jaas.config, and this host's clock"
    )

    def __init__(self, host: str, region: str, credentials: AwsCredentials, user_agent: str, now: datetime) -> None:
        self.identity = f"AWS access key {credentials.access_key!r}"
        self._host = host
        self._region = region
        self._credentials = credentials
        self._user_agent = user_agent
        self._now = now

    def first(self) -> bytes:
        """Return the signed request."""
        query = self._query()
        payload = {
            "version": _VERSION,
            "host": self._host,
            "user-agent": self._user_agent,
            **{name.lower(): value for name, value in query.items()},
            "x-amz-signature": self._signature(query),
        }
        return json.dumps(payload).encode()

    def answer(self, challenge: bytes) -> None:
        """Check that the broker has confirmed the request."""
        if not challenge:
            raise AuthenticationFailedError("AWS_MSK_IAM: the broker has confirmed nothing")

    def _query(self) -> dict[str, str]:
        """Return the parameters of the request, in the order in which they are signed."""
        date, token = self._now.strftime("%Y%m%d"), self._credentials.session_token
        return {
            "Action": _ACTION,
            "X-Amz-Algorithm": _ALGORITHM,
            "X-Amz-Credential": f"{self._credentials.access_key}/{date}/{self._region}/{SERVICE}/aws4_request",
            "X-Amz-Date": self._now.strftime("%Y%m%dT%H%M%SZ"),
            "X-Amz-Expires": str(EXPIRES_S),
            **({} if token is None else {"X-Amz-Security-Token": token}),
            "X-Amz-SignedHeaders": "host",
        }

    def _signature(self, query: dict[str, str]) -> str:
        encoded = "&".join(f"{quote(name, safe='')}={quote(value, safe='')}" for name, value in query.items())
        empty = hashlib.sha256(b"").hexdigest()
        request = f"GET\n/\n{encoded}\nhost:{self._host}\n\nhost\n{empty}"
        date = self._now.strftime("%Y%m%d")
        scope = f"{date}/{self._region}/{SERVICE}/aws4_request"
        digest = hashlib.sha256(request.encode()).hexdigest()
        key = f"AWS4{self._credentials.secret_key}".encode()
        for part in (date, self._region, SERVICE, "aws4_request"):
            key = hmac.digest(key, part.encode(), "sha256")
        text = f"{_ALGORITHM}\n{query['X-Amz-Date']}\n{scope}\n{digest}"
        return hmac.new(key, text.encode(), "sha256").hexdigest()
