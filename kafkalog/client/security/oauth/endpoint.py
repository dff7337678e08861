"""Tokens from a token endpoint: grants of client credentials (RFC 6749) and of assertions (RFC 7523)."""

from __future__ import annotations

import json
import logging
import ssl
import time
from base64 import b64encode
from collections.abc import Callable
from typing import Any
from urllib.parse import quote_plus, urlencode, urlsplit

from kafkalog.backoff import Backoff
from kafkalog.client.errors import AuthenticationError, ConfigError
from kafkalog.client.security.oauth.http import HttpError, HttpResponse, request
from kafkalog.client.security.oauth.options import (
    CLIENT_ID_KEY,
    CLIENT_SECRET_KEY,
    ENDPOINT_KEY,
    JWT_BEARER,
    SCOPE_KEY,
    OAuthOptions,
)
from kafkalog.client.security.oauth.token import Token, TokenError, read_token

logger = logging.getLogger(__name__)

_CLIENT_ASSERTION = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
_FINAL = frozenset({400, 401, 402, 403, 404, 405, 406, 407, 409, 410, 411, 412, 413, 414, 415, 501, 505})
"""The statuses after which Kafka's `HttpJwtRetriever` does not try again."""
_SHOWN = 200
_REMEDIES = {
    "invalid_client": f"check {CLIENT_ID_KEY} and {CLIENT_SECRET_KEY} (clientId and clientSecret in sasl.jaas.config)",
    "unauthorized_client": f"the client of {CLIENT_ID_KEY} may not use this grant; allow it at the provider",
    "invalid_scope": f"check {SCOPE_KEY} (scope in sasl.jaas.config)",
    "invalid_grant": "check the assertion: sasl.oauthbearer.assertion.…, its key, claims and clock",
    "unsupported_grant_type": "check sasl.oauthbearer.grant.type, and that the provider allows the grant",
}
_LOCAL = ("localhost", "127.0.0.1", "::1")


class TokenEndpointUnavailableError(AuthenticationError):
    """The token endpoint gave no token, but may do so later."""


class TokenEndpoint:
    """Requests tokens from an endpoint.

    Args:
        options: The endpoint, the grant and the time limits.
        tls: What the endpoint's certificate is checked with.
        assertion: Makes the assertion, where the grant or the client's authentication is by assertion.

    Raises:
        ConfigError: The endpoint's URL cannot be used.
    """

    def __init__(
        self, options: OAuthOptions, tls: ssl.SSLContext | None, assertion: Callable[[], str] | None = None
    ) -> None:
        self._options = options
        self._tls = tls
        self._assertion = assertion
        self._url = options.endpoint or ""
        self.name = f"the token endpoint {check_url(self._url)}"
        if urlsplit(self._url).scheme == "http" and urlsplit(self._url).hostname not in _LOCAL:
            logger.warning("%s=%s sends credentials without TLS", ENDPOINT_KEY, check_url(self._url))

    def fetch(self) -> Token:
        """Request a token; repeat the request for a while where the endpoint does not answer.

        Raises:
            AuthenticationError: The endpoint refuses the request, or its response has no token.
            TokenEndpointUnavailableError: It did not answer.
        """
        options = self._options
        deadline = time.monotonic() + options.retry_backoff_max
        backoff = Backoff(options.retry_backoff, options.retry_backoff_max)
        failures = 0
        while True:
            try:
                return self._fetch_once()
            except TokenEndpointUnavailableError:
                failures += 1
                pause = backoff.pause(failures)
                if time.monotonic() + pause >= deadline:
                    raise
                time.sleep(pause)

    def _fetch_once(self) -> Token:
        body, headers = self._request()
        now = time.time()
        try:
            response = request(
                "POST",
                self._url,
                body,
                headers,
                tls=self._tls,
                connect_timeout=self._options.connect_timeout,
                read_timeout=self._options.read_timeout,
            )
        except HttpError as error:
            raise self._unanswered(error) from error
        if response.status not in (200, 201):
            raise self._refusal(response)
        answer = _json(response.body)
        text = next((answer[key] for key in ("access_token", "id_token") if isinstance(answer.get(key), str)), None)
        if text is None:
            raise AuthenticationError(
                f"{self.name} answered HTTP {response.status} without access_token; check {ENDPOINT_KEY}"
            )
        lifetime = _seconds(answer.get("expires_in"))
        try:
            return read_token(
                text,
                sub_claim=self._options.sub_claim,
                expires_at=None if lifetime is None else now + lifetime,
                extensions=dict(self._options.extensions),
            )
        except TokenError as error:
            raise AuthenticationError(f"{self.name} gave a token that cannot be used: {error}") from None

    def _request(self) -> tuple[bytes, dict[str, str]]:
        """Return the body and the headers of a request."""
        options = self._options
        headers = {
            "Accept": "application/json",
            "Cache-Control": "no-cache",
            "Content-Type": "application/x-www-form-urlencoded",
        }
        form = {"grant_type": options.grant_type}
        if options.grant_type == JWT_BEARER:
            assert self._assertion is not None
            form["assertion"] = self._assertion()
        elif self._assertion is not None:
            form |= {"client_assertion_type": _CLIENT_ASSERTION, "client_assertion": self._assertion()}
            if options.client_id:
                form["client_id"] = options.client_id
        else:
            headers["Authorization"] = self._basic()
        if options.scope:
            form["scope"] = options.scope
        return urlencode(form).encode(), headers

    def _basic(self) -> str:
        name, secret = self._options.client_id or "", self._options.client_secret or ""
        if self._options.urlencode_header:
            name, secret = quote_plus(name), quote_plus(secret)
        return "Basic " + b64encode(f"{name}:{secret}".encode()).decode()

    def _unanswered(self, error: HttpError) -> AuthenticationError:
        if error.is_certificate:
            remedy = "name its authority by https.ca.location, or by ssl.truststore.location in sasl.jaas.config"
        else:
            remedy = f"check {ENDPOINT_KEY}"
        kind = TokenEndpointUnavailableError if error.is_temporary else AuthenticationError
        return kind(f"no token from {self.name}: {error}; {remedy}")

    def _refusal(self, response: HttpResponse) -> AuthenticationError:
        answer = _json(response.body)
        code = answer.get("error", answer.get("errorCode"))
        description = answer.get("error_description", answer.get("errorSummary"))
        reason = ": ".join(self._shown(part) for part in (code, description) if isinstance(part, str) and part)
        if not reason and response.body:
            reason = self._shown(response.body.decode("utf-8", "replace"))
        remedy = _REMEDIES.get(code) if isinstance(code, str) else None
        if remedy is None:
            remedy = _REMEDIES["invalid_client"] if response.status in (401, 403) else f"check {ENDPOINT_KEY}"
        kind = AuthenticationError if response.status in _FINAL else TokenEndpointUnavailableError
        return kind(f"{self.name} answered HTTP {response.status}{f' ({reason})' if reason else ''}; {remedy}")

    def _shown(self, text: str) -> str:
        """Return the beginning of a server's text on one line, without the client's secret."""
        secret = self._options.client_secret
        if secret:
            text = text.replace(secret, "[hidden]")
        text = " ".join("".join(char if char.isprintable() else " " for char in text).split())
        return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def check_url(url: str) -> str:
    """Check the URL of an endpoint, and return it as messages show it: without user information and query.

    Raises:
        ConfigError: The URL cannot be used.
    """
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        parts, port = urlsplit(""), None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigError(f"{ENDPOINT_KEY}: expected a URL that begins with https://, http:// or file://")
    if parts.username is not None:
        raise ConfigError(f"{ENDPOINT_KEY}: no user name is accepted here; use {CLIENT_ID_KEY} and {CLIENT_SECRET_KEY}")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return f"{parts.scheme}://{host}{f':{port}' if port else ''}{parts.path}"


def _seconds(value: Any) -> float | None:
    """Return a number of seconds, which some servers write as a text; None if it is none."""
    if isinstance(value, str) and value.isascii() and value.isdecimal():
        value = int(value[:15])
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and 0 <= value < 1e12 else None


def _json(body: bytes) -> dict[str, Any]:
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
