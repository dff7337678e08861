"""Points in time and durations as kafka-consumer-groups.sh takes them: ISO 8601. Pure."""

from __future__ import annotations

import re
from datetime import UTC, datetime

_DURATION = re.compile(
    r"(?P<sign>[+-]?)P(?:(?P<days>[+-]?\d+)D)?"
    r"(?:T(?=[+\-\d])(?:(?P<hours>[+-]?\d+)H)?(?:(?P<minutes>[+-]?\d+)M)?"
    r"(?:(?P<seconds>[+-]?\d+)(?:[.,](?P<fraction>\d{0,9}))?S)?)?",
    re.IGNORECASE,
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def timestamp_of(text: str) -> int:
    """Return ms since 1970 of `YYYY-MM-DDThh:mm:ss.sss`, in UTC unless it ends with a zone (`Z`, `+01:00`).

    Seconds and their fraction may be left out.

    Raises:
        ValueError: The text is no such point in time.
    """
    if "T" not in text:
        raise ValueError(f"{text!r} is no point in time: expected YYYY-MM-DDThh:mm:ss.sss")
    try:
        found = datetime.fromisoformat(text)
    except ValueError as error:
        raise ValueError(f"{text!r} is no point in time: expected YYYY-MM-DDThh:mm:ss.sss") from error
    elapsed = (found if found.tzinfo else found.replace(tzinfo=UTC)) - _EPOCH
    return (elapsed.days * 86_400 + elapsed.seconds) * 1000 + elapsed.microseconds // 1000


def duration_ms(text: str) -> int:
    """Return the ms of `PnDTnHnMn.nS`, as Java's `Duration.parse` reads it.

    Raises:
        ValueError: The text is no such duration.
    """
    found = _DURATION.fullmatch(text)
    parts = found.groupdict() if found else {}
    given = [parts.get(name) for name in ("days", "hours", "minutes", "seconds")]
    if not any(given):
        raise ValueError(f"{text!r} is no duration: expected PnDTnHnMnS, such as PT90M or P1DT12H")
    days, hours, minutes, seconds = (int(each or 0) for each in given)
    fraction = int((parts["fraction"] or "").ljust(3, "0")[:3])
    negative = (parts["seconds"] or "").startswith("-")
    total = ((days * 24 + hours) * 60 + minutes) * 60 + seconds
    total_ms = total * 1000 + (-fraction if negative else fraction)
    return -total_ms if parts["sign"] == "-" else total_ms
