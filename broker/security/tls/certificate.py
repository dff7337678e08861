"""Certificates: whose they are, and when they count (X.509, RFC 5280)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from broker.security.tls.der import INTEGER, SEQUENCE, DerError, Element, elements
from broker.security.tls.names import distinguished_name

_VERSION = 0xA0
_UTC_TIME, _GENERALIZED_TIME = 0x17, 0x18


@dataclass(frozen=True, slots=True)
class Certificate:
    """A certificate."""

    subject: str
    """The name of its owner, as Java writes it."""
    not_before: datetime
    not_after: datetime


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
    return Certificate(distinguished_name(fields[4]), _time(times[0]), _time(times[1]))


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
