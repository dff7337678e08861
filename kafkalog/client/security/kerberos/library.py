"""Use the system's Kerberos library, through the package `gssapi`: tickets and security contexts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kafkalog.client.errors import AuthenticationError, ConfigError
from kafkalog.client.security.kerberos.failures import TICKET_EXPIRED, explain
from kafkalog.client.security.kerberos.options import KerberosLogin
from kafkalog.protocol.wire.errors import AuthenticationFailedError

try:
    import gssapi
except ImportError as error:
    raise ConfigError(
        "sasl.mechanism=GSSAPI needs the package gssapi: pip install 'kafkalog[gssapi]' (to build it, a C compiler and "
        f"the headers of Kerberos: apt-get install gcc libkrb5-dev, dnf install gcc krb5-devel): {error}"
    ) from error

_FLAGS = gssapi.RequirementFlag.mutual_authentication | gssapi.RequirementFlag.integrity


@dataclass(frozen=True)
class Credentials:
    """A client's credentials, with what the library said about them while they were valid.

    The library refuses to answer about credentials whose ticket has expired, so it is asked once.
    """

    of_library: Any
    """The library's own object."""
    principal: str
    """The client's name, such as `alice@EXAMPLE.COM`."""
    lifetime: float
    """The seconds for which the ticket was valid."""


class Context:
    """A security context with one broker: a `kafkalog.protocol.wire.gssapi.SecurityContext`.

    Args:
        login: Where the tickets come from.
        host: The broker's host.
        credentials: What `from_cache` or `from_keytab` returned.

    Attributes:
        service: The broker's principal, for messages.
    """

    def __init__(self, login: KerberosLogin, host: str, credentials: Credentials) -> None:
        self.service = f"{login.service}/{host}"
        self._login = login
        name = gssapi.Name(f"{login.service}@{host}", gssapi.NameType.hostbased_service)
        self._context = gssapi.SecurityContext(
            name=name, creds=credentials.of_library, usage="initiate", mech=gssapi.MechType.kerberos, flags=_FLAGS
        )

    @property
    def is_complete(self) -> bool:
        """Return whether the context is established."""
        return bool(self._context.complete)

    def begin(self) -> bytes:
        """Return the first token. This asks the KDC for a ticket of the service, unless the cache has one.

        Raises:
            AuthenticationError: There is none.
        """
        try:
            return self._context.step() or b""
        except gssapi.exceptions.GSSError as error:
            raise failure(error, self._login, self.service) from error

    def step(self, token: bytes) -> bytes:
        """Take a token of the broker; return the next one, or no bytes.

        Raises:
            AuthenticationFailedError: The broker cannot prove that it is the service.
        """
        try:
            return self._context.step(token) or b""
        except gssapi.exceptions.GSSError as error:
            raise self._refusal(error) from error

    def wrap(self, message: bytes) -> bytes:
        """Sign a message."""
        try:
            wrapped: bytes = self._context.wrap(message, False).message
        except gssapi.exceptions.GSSError as error:
            raise self._refusal(error) from error
        return wrapped

    def unwrap(self, message: bytes) -> bytes:
        """Check a message's signature and return its content.

        Raises:
            AuthenticationFailedError: The signature is wrong.
        """
        try:
            content: bytes = self._context.unwrap(message).message
        except gssapi.exceptions.GSSError as error:
            raise self._refusal(error) from error
        return content

    def _refusal(self, error: Any) -> AuthenticationFailedError:
        return AuthenticationFailedError(f"GSSAPI: {self.service} could not prove who it is: {_text(error)}")


def from_cache(login: KerberosLogin) -> Credentials:
    """Return the credentials of the ticket cache.

    Raises:
        AuthenticationError: It has no ticket that can be used.
    """
    return _credentials(login, {} if login.cache is None else {"ccache": login.cache})


def from_keytab(login: KerberosLogin, cache: str) -> Credentials:
    """Return credentials by the keytab. Their tickets go to `cache`, and new ones are fetched there in time.

    Raises:
        AuthenticationError: The keytab does not give a ticket.
    """
    return _credentials(login, {"client_keytab": str(login.keytab), "ccache": cache})


def failure(error: Any, login: KerberosLogin, service: str) -> AuthenticationError:
    """Make the client's error for one of the library."""
    # GSSAPI has a number of its own for a ticket whose time is over, and gives none of Kerberos then.
    minor = TICKET_EXPIRED if isinstance(error, gssapi.exceptions.ExpiredCredentialsError) else error.min_code
    return AuthenticationError(f"sasl.mechanism=GSSAPI: {explain(minor, _text(error), login, service)}")


def _credentials(login: KerberosLogin, store: dict[str, str]) -> Credentials:
    try:
        name = None if login.principal is None else gssapi.Name(login.principal, gssapi.NameType.kerberos_principal)
        found = gssapi.Credentials(name=name, usage="initiate", store=store or None)
        # The library looks for the ticket only now.
        return Credentials(found, str(found.name), float(found.lifetime or 0))
    except gssapi.exceptions.GSSError as error:
        raise failure(error, login, login.service) from error


def _text(error: Any) -> str:
    """Return the library's text about Kerberos' own error, or that about GSSAPI's where there is no other."""
    said = [*error.get_all_statuses(error.min_code, False), *error.get_all_statuses(error.maj_code, True)]
    return str(next((text for text in said if text), error))
