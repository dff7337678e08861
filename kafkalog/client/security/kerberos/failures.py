"""Say what to do about errors of MIT's Kerberos library.

An error has two numbers: GSSAPI's own (major), and Kerberos' (minor), which tells what is wrong. The minor ones here
are those of `krb5.h` and of `gssapi_krb5.h` of MIT Kerberos 1.20, taken as unsigned. Another library (Heimdal) has
other numbers. For these the message is the library's own.
"""

from __future__ import annotations

import os
from pathlib import Path

from kafkalog.client.security.kerberos.keytab import KeytabError, principals
from kafkalog.client.security.kerberos.options import KerberosLogin

_BASE = -1765328384 & 0xFFFFFFFF
"""ERROR_TABLE_BASE_krb5, the number of the first error."""

CLIENT_UNKNOWN = _BASE + 6
SERVER_UNKNOWN = _BASE + 7
CLIENT_REVOKED = _BASE + 18
KEY_EXPIRED = _BASE + 23
PREAUTH_FAILED = _BASE + 24
BAD_INTEGRITY = _BASE + 31
TICKET_EXPIRED = _BASE + 32
CLOCK_SKEW = _BASE + 37
KDC_SILENT = _BASE + 156
REALM_UNKNOWN = _BASE + 154
REALM_UNRESOLVED = _BASE + 220
CACHE_NOT_FOUND = _BASE + 141
CACHE_FILE_NOT_FOUND = _BASE + 195
CACHE_FORMAT = _BASE + 199
NO_DEFAULT_REALM = _BASE + 224
CACHE_OF_ANOTHER = 39756032
CACHE_EMPTY = 39756044

_NO_TICKET = frozenset({CACHE_NOT_FOUND, CACHE_FILE_NOT_FOUND, CACHE_EMPTY})


def explain(minor: int, said: str, login: KerberosLogin, service: str) -> str:
    """Return one line about an error: what is wrong, and the option to change.

    Args:
        minor: The error's minor number.
        said: The library's text.
        login: Where the tickets come from.
        service: The broker's principal.
    """
    match minor & 0xFFFFFFFF:
        case code if code == SERVER_UNKNOWN:
            return (
                f"the KDC does not know the broker as {service}: check sasl.kerberos.service.name, and that "
                f"bootstrap.servers and advertised.listeners name the host as the KDC does ({said})"
            )
        case code if code == CLOCK_SKEW:
            return f"the clocks of this host and of the KDC or the broker differ by too much; synchronize them ({said})"
        case code if code in (KDC_SILENT, REALM_UNKNOWN, REALM_UNRESOLVED, NO_DEFAULT_REALM):
            return f"no KDC can be asked: {said}; check the realm and its kdc in {_configuration()}"
        case code:
            return _about_keytab(code, said, login) if login.keytab else _about_cache(code, said, login)


def _about_keytab(code: int, said: str, login: KerberosLogin) -> str:
    of_whom = login.principal or "its principal"
    if code in _NO_TICKET:
        return f"{login.keytab} gives no ticket: {_misfit(login) or said}; check {login.keytab_option}"
    if code in (PREAUTH_FAILED, BAD_INTEGRITY):
        return f"{login.keytab} has an old key of {of_whom} ({said}); export it again, or set {login.keytab_option}"
    if code in (CLIENT_UNKNOWN, CLIENT_REVOKED, KEY_EXPIRED):
        return f"the KDC refuses {of_whom} ({said}); check {login.principal_option}"
    return f"no ticket by {login.keytab}: {said}"


def _about_cache(code: int, said: str, login: KerberosLogin) -> str:
    cache = login.cache or os.environ.get("KRB5CCNAME") or "the ticket cache"
    remedy = f"run kinit, or set {login.keytab_option}"
    if code in _NO_TICKET:
        return f"there is no ticket in {cache}: {remedy}"
    if code == TICKET_EXPIRED:
        return f"the ticket in {cache} has expired: {remedy}"
    if code == CACHE_OF_ANOTHER:
        return f"the ticket in {cache} is not that of {login.principal}: {remedy}, or {login.principal_option}"
    return f"the ticket in {cache} cannot be used: {said}; {remedy}"


def _misfit(login: KerberosLogin) -> str | None:
    """Say why the keytab has no key for the principal, if that is so."""
    try:
        names = principals(Path(login.keytab or ""))
    except KeytabError as error:
        return str(error)
    if not names:
        return "it has no keys"
    wanted = login.principal
    if wanted is not None and wanted not in names and wanted not in {name.rpartition("@")[0] for name in names}:
        return f"it has keys of {', '.join(names[:5])}, not of {wanted}"
    return None


def _configuration() -> str:
    return os.environ.get("KRB5_CONFIG") or "/etc/krb5.conf"
