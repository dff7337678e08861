"""Tokens from a function or an object of the user's.

Three shapes are understood:

- a function like confluent-kafka's `oauth_cb`: it takes the text of `sasl.oauthbearer.config` and returns a token and
  when it ends, in seconds since 1970; a principal and extensions may follow;
- an object like kafka-python's `sasl_oauth_token_provider`: its method `token()` returns the token, and its method
  `extensions()`, if it has one, what to send with it;
- the name of a class of such objects, `module.Class`, in `sasl.login.callback.handler.class`. The class is called
  without arguments. If the object has a method `configure`, that is called once with the options of
  `sasl.jaas.config`, as a dictionary.

`token()` may also return a pair of the token and when it ends, in seconds since 1970.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any

from kafkalog.client.errors import AuthenticationError, ConfigError
from kafkalog.client.security.oauth.token import Token, TokenError, read_token


class FunctionTokens:
    """Tokens from a function like confluent-kafka's `oauth_cb`."""

    def __init__(self, function: Callable[..., Any], config: str, sub_claim: str) -> None:
        self.name = f"oauth_cb {getattr(function, '__qualname__', type(function).__name__)}"
        self._function = function
        self._config = config
        self._sub_claim = sub_claim

    def fetch(self) -> Token:
        """Call the function.

        Raises:
            AuthenticationError: It failed, or returned no token.
        """
        try:
            found = self._function(self._config)
        except Exception as error:  # the user's function may raise anything
            raise _failed(self.name, error) from error
        return _token(self.name, found, {}, self._sub_claim)


class ObjectTokens:
    """Tokens from an object like kafka-python's `sasl_oauth_token_provider`."""

    def __init__(self, provider: Any, name: str, sub_claim: str, extensions: Mapping[str, str]) -> None:
        self.name = name
        self._provider = provider
        self._sub_claim = sub_claim
        self._extensions = dict(extensions)

    def fetch(self) -> Token:
        """Call the object's methods.

        Raises:
            AuthenticationError: One of them failed, or returned no token.
        """
        try:
            found = self._provider.token()
            extensions: Any = getattr(self._provider, "extensions", dict)()
        except Exception as error:  # the user's object may raise anything
            raise _failed(self.name, error) from error
        return _token(self.name, found, {**self._extensions, **dict(extensions or {})}, self._sub_claim)


def load(
    key: str, class_name: str, jaas: Mapping[str, str], sub_claim: str, extensions: Mapping[str, str]
) -> ObjectTokens:
    """Make a provider from the name of its class.

    Args:
        key: The property that names the class.
        class_name: The class, as `module.Class`.
        jaas: The options of `sasl.jaas.config`.
        sub_claim: The claim with the principal's name.
        extensions: What to send with each token.

    Raises:
        ConfigError: There is no such class, it cannot be made, or its objects have no method `token`.
    """
    module, dot, name = class_name.rpartition(".")
    try:
        if not dot:
            raise ImportError("expected module.Class")
        made = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigError(
            f"{key}={class_name}: no such Python class ({error}); Java classes cannot be loaded here. Name a Python "
            "class whose objects have a method token()"
        ) from error
    try:
        provider = made() if isinstance(made, type) else made
        configure = getattr(provider, "configure", None)
        if configure is not None:
            configure(dict(jaas))
    except Exception as error:  # the user's class may raise anything
        raise ConfigError(f"{key}={class_name}: {type(error).__name__}: {error}") from error
    if not callable(getattr(provider, "token", None)):
        raise ConfigError(f"{key}={class_name}: its objects have no method token()")
    return ObjectTokens(provider, f"{key}={class_name}", sub_claim, extensions)


def _failed(name: str, error: Exception) -> AuthenticationError:
    return AuthenticationError(f"no token from {name}: {type(error).__name__}: {error}")


def _token(name: str, found: Any, extensions: Mapping[str, str], sub_claim: str) -> Token:
    parts = tuple(found) if isinstance(found, tuple | list) else (found,)
    text = parts[0].decode("utf-8", "replace") if parts and isinstance(parts[0], bytes) else parts[0] if parts else None
    if not isinstance(text, str):
        raise AuthenticationError(f"{name} returned {type(text).__name__}, where a token (a string) is expected")
    ends = parts[1] if len(parts) > 1 else None
    if ends is not None and (isinstance(ends, bool) or not isinstance(ends, int | float)):
        raise AuthenticationError(f"{name} returned no time in seconds since 1970 as the second value")
    more = parts[3] if len(parts) > 3 and parts[3] else {}
    try:
        token = read_token(text, sub_claim=sub_claim, expires_at=ends, extensions={**extensions, **dict(more)})
    except (TokenError, TypeError, ValueError) as error:
        raise AuthenticationError(f"{name} returned what cannot be used: {error}") from None
    principal = parts[2] if len(parts) > 2 and isinstance(parts[2], str) and parts[2] else token.principal
    # The function's own time counts where the token says another one.
    return Token(token.value, float(ends) if ends else token.expires_at, token.issued_at, principal, token.extensions)
