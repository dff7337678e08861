"""Accepts security contexts with the system's Kerberos library, through the package `gssapi`. Workers call it."""

from __future__ import annotations

from typing import Any

from broker.config.definition import ConfigError
from broker.security.sasl.mechanisms.interface import SaslError, SaslRetriableError

try:
    import gssapi
except ImportError as error:
    raise ConfigError(
        "the SASL mechanism GSSAPI needs the package gssapi: pip install 'kafkalog[gssapi]' (to build it, a C compiler "
        f"and the headers of Kerberos: apt-get install gcc libkrb5-dev): {error}"
    ) from error

_BASE = -1765328384 & 0xFFFFFFFF
"""The number of the library's first error (ERROR_TABLE_BASE_krb5)."""
_RETRIABLE = {
    _BASE + 33: "the ticket is not valid yet: the clocks differ",
    _BASE + 34: "the request is a replay",
    _BASE + 37: "the clocks differ by too much",
}
"""Errors that may pass."""


class Acceptor:
    """The credentials of the broker.

    Args:
        keytab: the file with its keys.
        principal: its name, such as `kafka/host@REALM`.
        name: the configuration that both come from, for messages.

    Raises:
        ConfigError: the keytab does not have its key.
    """

    def __init__(self, keytab: str, principal: str, name: str) -> None:
        try:
            service = gssapi.Name(principal, gssapi.NameType.kerberos_principal)
            self._credentials = gssapi.Credentials(name=service, usage="accept", store={"keytab": keytab})
            self.principal = str(self._credentials.name)
        except gssapi.exceptions.GSSError as error:
            raise ConfigError(f"{name}: the keytab {keytab} has no key of {principal}: {_text(error)}") from error

    def accept(self) -> AcceptedContext:
        """Begin a security context with a client."""
        context = gssapi.SecurityContext(creds=self._credentials, usage="accept")
        # An error is raised at the step that fails, and not at the next one.
        context.__DEFER_STEP_ERRORS__ = False
        return AcceptedContext(context)


class AcceptedContext:
    """A security context with one client. All methods may block for a moment."""

    def __init__(self, context: Any) -> None:
        self._context = context

    @property
    def is_complete(self) -> bool:
        """Return whether the context is established."""
        return bool(self._context.complete)

    @property
    def client(self) -> str:
        """The name of the client, such as `alice@REALM`. Available once the context is established."""
        return str(self._context.initiator_name)

    def step(self, token: bytes) -> bytes | None:
        """Take a token of the client; return the next one, or None.

        Raises:
            SaslError: the ticket is not accepted.
        """
        try:
            found: bytes | None = self._context.step(token)
        except gssapi.exceptions.GSSError as error:
            raise _failure(error) from error
        return found

    def wrap(self, message: bytes) -> bytes:
        """Sign a message.

        Raises:
            SaslError: the context is not valid any more.
        """
        try:
            wrapped: bytes = self._context.wrap(message, False).message
        except gssapi.exceptions.GSSError as error:
            raise _failure(error) from error
        return wrapped

    def unwrap(self, message: bytes) -> bytes:
        """Check the signature of a message, and return its content.

        Raises:
            SaslError: the signature is wrong.
        """
        try:
            content: bytes = self._context.unwrap(message).message
        except gssapi.exceptions.GSSError as error:
            raise _failure(error) from error
        return content


def _failure(error: Any) -> SaslError:
    known = _RETRIABLE.get(error.min_code & 0xFFFFFFFF)
    if known is not None:
        return SaslRetriableError(f"GSSAPI: {known}")
    return SaslError(_text(error))


def _text(error: Any) -> str:
    """Return the library's text about Kerberos' own error, or that about GSSAPI's where there is no other."""
    said = [*error.get_all_statuses(error.min_code, False), *error.get_all_statuses(error.maj_code, True)]
    return str(next((text for text in said if text), error))
