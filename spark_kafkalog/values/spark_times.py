"""Dates and timestamps in text, as Spark reads them (`SparkDateTimeUtils`), for values of JSON.

Spark takes more than ISO 8601 in some respects, and less in others. Months, days, hours, minutes and seconds may have
one digit. Parts may be left out from the end. What follows a date does not matter, where a date is wanted. There are no
weeks and no compact forms, and a zone stands only after seconds.

Two kinds of texts are not read here: timestamps with the name of a region (`Europe/Berlin`, `CET`), which need a data
base that executors may lack; and times without a date, which Spark takes for times of the present day. Only the zone of
timestamps that name none may be a region: the user has named it, and a machine without it ends the query.
"""

from __future__ import annotations

import datetime
import re
from zoneinfo import ZoneInfo

MICROS_S = 1_000_000
UTC = datetime.UTC
_CYCLE_DAYS = 146_097
"""The days of 400 years, after which the calendar repeats itself."""
_EPOCH = datetime.datetime(1970, 1, 1)
_FIRST_DAY, _LAST_DAY = (each.toordinal() - _EPOCH.toordinal() for each in (datetime.date.min, datetime.date.max))
"""The days from 1970 to the first and the last date of Python."""
_BLANKS = "".join(map(chr, range(0x21))) + "\x7f"
"""White space and control characters, which Spark removes at both ends."""
_DATE = re.compile(r"([+-]?)([0-9]{4,7})(?:-([0-9]{1,2})(?:-([0-9]{1,2})(?:[ T].*)?)?)?", re.DOTALL)
_TIMESTAMP = re.compile(
    r"([+-]?)([0-9]{4,6})(?:-([0-9]{1,2})(?:-([0-9]{1,2})"
    r"(?:[ T]([0-9]{1,2})(?::([0-9]{1,2})(?::([0-9]{1,2})(?:\.([0-9]*))?([^0-9.].*)?)?)?)?)?)?",
    re.DOTALL,
)
_NUMBER = re.compile(r"[+-]?[0-9]{1,10}")
_JULIAN_UNTIL = -141_427
"""The number of 15 October 1582, the first Gregorian day. Spark takes earlier numbers for days of the Julian
calendar."""
_OFFSET = re.compile(
    r"(?:UTC|GMT|UT)?([+-])(?:([0-9])|([0-9]{1,2}):([0-9]{1,2})|([0-9]{2})([0-9]{2})?([0-9]{2})?"
    r"|([0-9]{1,2}):([0-9]{2}):([0-9]{2}))"
)
_MOST_OFFSET_S = 18 * 3600


def days(text: str) -> int:
    """Return the days from 1970 to a date. A number of other than 4 to 7 digits, which are a year, is itself the days.

    Raises:
        ValueError: The text is no date, or the days do not fit in 32 bits.
    """
    for form in _forms(text):
        match = _DATE.fullmatch(form.strip(_BLANKS))
        if match is not None:
            return _fitting(_days_of(*match.groups()), 32)
    if _NUMBER.fullmatch(text) is not None:
        number = _fitting(int(text), 32)
        return number if number >= _JULIAN_UNTIL else _fitting(_of_julian(number), 32)
    raise ValueError("no date")


def zone_of(name: str) -> datetime.tzinfo:
    """Return a time zone: UTC, an offset such as `+02:00`, or a region such as `Europe/Berlin`.

    Raises:
        ValueError: There is no such zone on this machine.
    """
    try:
        seconds = _offset(name)
    except ValueError:
        pass
    else:
        return datetime.timezone(datetime.timedelta(seconds=seconds)) if seconds else UTC
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise ValueError(
            f"no time zone '{name}' on this machine: expected UTC, an offset such as +02:00, or a region such as "
            "Europe/Berlin; `pip install tzdata` brings the regions, on executors, too"
        ) from None


def micros(text: str, zone: datetime.tzinfo = UTC) -> int:
    """Return the microseconds from 1970 to a timestamp, in `zone` if it has none itself.

    Raises:
        ValueError: The text is no timestamp, or its zone is a region.
    """
    failed = ValueError("no timestamp")
    for form in _forms(text):
        try:
            local, offset_s = _local(form)
            if offset_s is None:
                offset_s = _offset_in(zone, local // MICROS_S)
            return _fitting(local - offset_s * MICROS_S, 64)
        except ValueError as error:
            failed = error
    raise failed


def local_micros(text: str) -> int:
    """Return the microseconds from 1970 to a timestamp without a zone, by the same clock.

    Raises:
        ValueError: The text is no timestamp, or has a zone.
    """
    local, offset_s = _local(text)
    if offset_s is not None:
        raise ValueError("a zone")
    return _fitting(local, 64)


def _forms(text: str) -> list[str]:
    """Return the texts that Spark tries: as it is, and without `GMT`, which older versions put before an offset."""
    return [text, text.replace("GMT", "", 1)] if "GMT" in text else [text]


def _days_of(sign: str, year: str, month: str | None, day: str | None) -> int:
    return _days_to(int(sign + year), int(month or 1), int(day or 1))


def _days_to(year: int, month: int, day: int) -> int:
    """Return the days from 1970 to a date of the Gregorian calendar."""
    # Python has the years 1 to 9999.
    cycles, within = divmod(year - 2000, 400)
    found = datetime.date(2000 + within, month, day)
    return found.toordinal() - datetime.date(1970, 1, 1).toordinal() + cycles * _CYCLE_DAYS


def _of_julian(number: int) -> int:
    """Return the days from 1970 to the Gregorian date that is called as a Julian one (`RebaseDateTime`).

    The 29 February of a year that is a leap year only in the Julian calendar becomes the 1 March.
    """
    # Years begin on 1 March here, so that the leap day is their last one. They are counted from 1 March -4800.
    since = number + 2_472_670
    year = (4 * since + 3) // 1461
    of_year = since - 1461 * year // 4
    month = (5 * of_year + 2) // 153
    day = of_year - (153 * month + 2) // 5
    return _days_to(year - 4800 + month // 10, month + 3 - 12 * (month // 10), 1) + day


def _local(text: str) -> tuple[int, int | None]:
    """Return microseconds since 1970 by the local clock, and that clock's seconds before UTC if they are given."""
    match = _TIMESTAMP.fullmatch(text.strip(_BLANKS))
    if match is None:
        raise ValueError("no timestamp")
    *date, hour, minute, second, fraction, zone = match.groups()
    time = datetime.time(int(hour or 0), int(minute or 0), int(second or 0))
    seconds = _days_of(*date) * 86_400 + time.hour * 3600 + time.minute * 60 + time.second
    found = seconds * MICROS_S + int((fraction or "")[:6].ljust(6, "0"))
    return found, None if zone is None else _offset(zone.strip(_BLANKS))


def _offset_in(zone: datetime.tzinfo, local_s: int) -> int:
    """Return the seconds by which a zone's clock is before UTC when it shows a time.

    Of two such times it is the first one. A time that the clock passes over is as late after the change as it would be
    without the change. Java does the same (`ZonedDateTime.of`).
    """
    if zone is UTC:
        return 0
    days, second = divmod(local_s, 86_400)
    # Python has the years 1 to 9999. Before and after these a zone's rules stay as they are.
    if not _FIRST_DAY <= days <= _LAST_DAY:
        like = _FIRST_DAY if days < _FIRST_DAY else _LAST_DAY - _CYCLE_DAYS + 1
        days = (days - like) % _CYCLE_DAYS + like
    shown = _EPOCH + datetime.timedelta(days, second)
    offset = shown.replace(tzinfo=zone).utcoffset()
    assert offset is not None
    return offset.days * 86_400 + offset.seconds


def _offset(zone: str) -> int:
    """Return the seconds by which a zone's clock is before UTC."""
    if zone in ("Z", "UTC", "GMT", "UT"):
        return 0
    match = _OFFSET.fullmatch(zone)
    if match is None:
        raise ValueError("an unknown zone")
    sign, *parts = match.groups()
    hours, minutes, seconds = [int(each) for each in parts if each is not None] + [0] * (3 - sum(map(bool, parts)))
    found = hours * 3600 + minutes * 60 + seconds
    if minutes > 59 or seconds > 59 or found > _MOST_OFFSET_S:
        raise ValueError("an unknown zone")
    return -found if sign == "-" else found


def _fitting(found: int, bits: int) -> int:
    if not -(1 << bits - 1) <= found < 1 << bits - 1:
        raise ValueError(f"it does not fit in {bits} bits")
    return found
