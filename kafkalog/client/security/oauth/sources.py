"""Choose where tokens come from, as Java's `DefaultJwtRetriever` and librdkafka's `sasl.oauthbearer.method` do."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Protocol
from urllib.parse import unquote, urlsplit

from kafkalog.client.config import ClientConfig
from kafkalog.client.errors import AuthenticationError, ConfigError
from kafkalog.client.security.oauth.assertion import make_assertion
from kafkalog.client.security.oauth.endpoint import TokenEndpoint, check_url
from kafkalog.client.security.oauth.options import (
    CLIENT_ID_KEY,
    CLIENT_SECRET_KEY,
    ENDPOINT_KEY,
    HANDLER_KEY,
    JWT_BEARER,
    TOKEN_KEY,
    OAuthOptions,
)
from kafkalog.client.security.oauth.providers import FunctionTokens, ObjectTokens, load
from kafkalog.client.security.oauth.token import Token, TokenError, read_token
from kafkalog.client.security.oauth.unsecured import PREFIX, from_jaas, from_librdkafka
from kafkalog.client.security.tls import make_ssl_context

RETRIEVER_KEY = "sasl.oauthbearer.jwt.retriever.class"
_JAVA = "org.apache.kafka.common.security.oauthbearer."
_JAVA_ENDPOINT = (f"{_JAVA}OAuthBearerLoginCallbackHandler", f"{_JAVA}secured.OAuthBearerLoginCallbackHandler")
_JAVA_UNSECURED = f"{_JAVA}internals.unsecured.OAuthBearerUnsecuredLoginCallbackHandler"
JAVA_HANDLERS = (*_JAVA_ENDPOINT, _JAVA_UNSECURED)
"""Kafka's own classes that get tokens (`sasl.login.callback.handler.class`)."""
_SHADED = "kafkashaded."
"""The prefix of the same classes in Databricks' runtime, which texts written for it have."""
_EXTENSION = "extension_"
"""The prefix of extensions among the options of `sasl.jaas.config`, for tokens of endpoints and files."""


class TokenSource(Protocol):
    """Gives tokens. `Login` calls it on a thread of its own, and never on two at once."""

    name: str
    """The source in messages: the option that chose it, or the file, endpoint or function it names. Never a secret."""

    def fetch(self) -> Token:
        """Get a token.

        Raises:
            AuthenticationError: There is none.
        """


class FileTokens:
    """Tokens from a file, which another program replaces in time."""

    def __init__(self, path: str, sub_claim: str, extensions: Mapping[str, str]) -> None:
        self.name = f"the file of {ENDPOINT_KEY}={path}"
        self._path = Path(path)
        self._sub_claim = sub_claim
        self._extensions = extensions

    def fetch(self) -> Token:
        """Read the file.

        Raises:
            AuthenticationError: It cannot be read, or has no token.
        """
        try:
            text = self._path.read_text("utf-8")
            return read_token(text, sub_claim=self._sub_claim, extensions=self._extensions)
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or "it is no text"
            raise AuthenticationError(f"no token from {self.name}: {reason}") from error
        except TokenError as error:
            raise AuthenticationError(f"no token from {self.name}: {error}") from None


class TextToken:
    """The token that the configuration has itself. There is no next one."""

    name = TOKEN_KEY

    def __init__(self, text: str, sub_claim: str, extensions: Mapping[str, str]) -> None:
        try:
            self._token = read_token(text, sub_claim=sub_claim, extensions=extensions)
        except TokenError as error:
            raise ConfigError(f"{TOKEN_KEY}: {error}") from None

    def fetch(self) -> Token:
        """Return the token."""
        return self._token


def make_source(options: OAuthOptions, jaas: Mapping[str, str]) -> TokenSource:
    """Make the source that the options choose.

    Args:
        options: The properties.
        jaas: The options of `sasl.jaas.config`; the properties take precedence over them.

    Raises:
        ConfigError: The options choose no source, or lack something.
    """
    extensions = {**_extensions(jaas), **dict(options.extensions)}
    if callable(options.oauth_cb):
        return FunctionTokens(options.oauth_cb, options.config, options.sub_claim)
    if options.token_provider is not None:
        return ObjectTokens(options.token_provider, "sasl_oauth_token_provider", options.sub_claim, extensions)
    handler = None if options.callback_handler is None else options.callback_handler.removeprefix(_SHADED)
    if handler is not None and handler not in JAVA_HANDLERS:
        return load(HANDLER_KEY, handler, jaas, options.sub_claim, extensions)
    if options.token is not None:
        return TextToken(options.token, options.sub_claim, extensions)
    if handler != _JAVA_UNSECURED and (options.endpoint is not None or handler in _JAVA_ENDPOINT):
        return _from_endpoint(options, jaas, extensions)
    if any(name.startswith(PREFIX) for name in jaas):
        return from_jaas(jaas)
    if options.unsecured:
        return from_librdkafka(options.config)
    raise ConfigError(
        f"sasl.mechanism=OAUTHBEARER needs a source of tokens: set {ENDPOINT_KEY} (with {CLIENT_ID_KEY} and "
        f"{CLIENT_SECRET_KEY}, or a file: URL), {HANDLER_KEY}, or {TOKEN_KEY}"
    )


def _extensions(jaas: Mapping[str, str]) -> dict[str, str]:
    return {name.removeprefix(_EXTENSION): value for name, value in jaas.items() if name.startswith(_EXTENSION)}


def _from_endpoint(options: OAuthOptions, jaas: Mapping[str, str], extensions: Mapping[str, str]) -> TokenSource:
    endpoint = options.endpoint
    if endpoint is None:
        raise ConfigError(f"{HANDLER_KEY}={options.callback_handler} needs {ENDPOINT_KEY}")
    retriever = (options.retriever or f"{_JAVA}DefaultJwtRetriever").removeprefix(_SHADED)
    kind = retriever.removeprefix(_JAVA)
    if kind not in (
        "DefaultJwtRetriever",
        "FileJwtRetriever",
        "ClientCredentialsJwtRetriever",
        "JwtBearerJwtRetriever",
    ):
        return load(RETRIEVER_KEY, retriever, jaas, options.sub_claim, extensions)
    is_file = endpoint.lower().startswith("file:")
    if not is_file:
        check_url(endpoint)
    if is_file and kind in ("DefaultJwtRetriever", "FileJwtRetriever"):
        return FileTokens(unquote(urlsplit(endpoint).path), options.sub_claim, extensions)
    if is_file or kind == "FileJwtRetriever":
        raise ConfigError(
            f"{RETRIEVER_KEY}={retriever} does not fit {ENDPOINT_KEY}: a file: URL is for FileJwtRetriever"
        )
    options = _with_jaas(options, jaas, extensions, kind)
    by_assertion = options.grant_type == JWT_BEARER or options.assertion_file or options.assertion_iss
    if not by_assertion:
        missing = [
            k for k, v in ((CLIENT_ID_KEY, options.client_id), (CLIENT_SECRET_KEY, options.client_secret)) if not v
        ]
        if missing:
            raise ConfigError(f"{ENDPOINT_KEY} needs {' and '.join(missing)}")
    assertion = make_assertion(options) if by_assertion else None
    return TokenEndpoint(options, _tls(options, jaas), assertion)


def _with_jaas(
    options: OAuthOptions, jaas: Mapping[str, str], extensions: Mapping[str, str], retriever: str
) -> OAuthOptions:
    return replace(
        options,
        client_id=options.client_id or jaas.get("clientId"),
        client_secret=options.client_secret or jaas.get("clientSecret"),
        scope=options.scope or jaas.get("scope"),
        extensions=tuple(extensions.items()),
        grant_type=JWT_BEARER if retriever == "JwtBearerJwtRetriever" else options.grant_type,
    )


def _tls(options: OAuthOptions, jaas: Mapping[str, str]) -> ssl.SSLContext | None:
    """Make what the endpoint's certificate is checked with: from `https.…`, else from `ssl.…` of the JAAS options."""
    if urlsplit(options.endpoint or "").scheme != "https":
        return None
    properties = {name: value for name, value in jaas.items() if name.startswith("ssl.")}
    if options.ca_location is not None:
        properties = {"ssl.ca.location": options.ca_location}
    elif options.ca_pem is not None:
        properties = {"ssl.truststore.certificates": options.ca_pem, "ssl.truststore.type": "PEM"}
    try:
        return make_ssl_context(ClientConfig.from_dict(properties).tls)
    except ConfigError as error:
        raise ConfigError(
            f"TLS of the token endpoint (https.ca.location, or ssl.… in sasl.jaas.config): {error}"
        ) from None
