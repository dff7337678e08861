"""Certificates: whose they are, which hosts they are for, and when they count (X.509, RFC 5280)."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from broker.security.tls.der import IDENTIFIER, INTEGER, SEQUENCE, DerError, Element, elements
from broker.security.tls.names import distinguished_name

_VERSION = 0xA0
_UTC_TIME, _GENERALIZED_TIME = 0x17, 0x18
_EXTENSIONS = 0xA3
_ALTERNATIVE_NAMES = bytes.fromhex("551d11")
"""2.5.29.17, the extension with the names of hosts."""
_DNS_NAME, _IP_ADDRESS, _OCTETS = 0x82, 0x87, 0x04


@dataclass(frozen=True, slots=True)
class Certificate:
    """A certificate."""

    subject: str
    """The name of its owner, as Java writes it."""
    not_before: datetime
    not_after: datetime
    hosts: tuple[str, ...]
    """The names and addresses of hosts that it is for. A name may begin with `*.` for any one word."""

    def is_for(self, host: str) -> bool:
        """Return whether clients that check names take it for that of a host (RFC 6125)."""
        _, _, domain = host.lower().partition(".")
        return host.lower() in self.hosts or (bool(domain) and f"*.{domain}" in self.hosts)


def read_certificate(der: bytes) -> Certificate:
    """Read a certificate.

    Raises:
        DerError: the bytes are none.
    """
    whole = elements(der)
    if not whole:
        raise DerError("it is empty")
    signed = whole[0].parts(SEQUENCE)
    fields = signed[0].parts(SEQUENCE) if signed else []
    if fields and fields[0].tag == _VERSION:
        del fields[0]
    # Serial number, algorithm, issuer, validity, subject.
    if len(fields) < 5 or fields[0].tag != INTEGER:
        raise DerError("it is no certificate")
    times = fields[3].parts(SEQUENCE)
    if len(times) != 2:
        raise DerError("it does not say when it counts")
    return Certificate(distinguished_name(fields[4]), _time(times[0]), _time(times[1]), tuple(_hosts(fields)))


def _hosts(fields: list[Element]) -> Iterator[str]:
    """Yield the hosts in the extension with alternative names, in the form that Python writes addresses in."""
    wrapped = [part for field in fields if field.tag == _EXTENSIONS for part in field.parts()]
    for extension in (each for part in wrapped for each in part.parts(SEQUENCE)):
        parts = extension.parts(SEQUENCE)
        if len(parts) < 2 or parts[0].tag != IDENTIFIER or parts[0].content != _ALTERNATIVE_NAMES:
            continue
        if parts[-1].tag != _OCTETS:
            raise DerError("an extension has no value")
        for name in (each for names in elements(parts[-1].content) for each in names.parts(SEQUENCE)):
            if name.tag == _DNS_NAME:
                yield name.content.decode("ascii", "replace").lower()
            elif name.tag == _IP_ADDRESS and len(name.content) in (4, 16):
                yield str(ipaddress.ip_address(name.content))


def _time(element: Element) -> datetime:
    form = {_UTC_TIME: "%y%m%d%H%M%SZ", _GENERALIZED_TIME: "%Y%m%d%H%M%SZ"}.get(element.tag)
    if form is None:
        raise DerError("a time has another form than those of certificates")
    try:
        found = datetime.strptime(element.content.decode("ascii"), form).replace(tzinfo=UTC)
    except ValueError:
        raise DerError("a time cannot be read") from None
    # Two digits of a year stand for 1950 to 2049; Python's stand for 1969 to 2068.
    if element.tag == _UTC_TIME and found.year >= 2050:
        return found.replace(year=found.year - 100)
    return found
