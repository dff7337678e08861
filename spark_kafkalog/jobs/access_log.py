"""Web access logs as Spark SQL expressions: a line of text to a structure, or the reason why it does not parse.

The formats are Apache's "common" and "combined" (https://httpd.apache.org/docs/2.4/logs.html#accesslog), which are
also nginx's predefined `combined`; what a server adds after them, behind a space, is not looked at. The expressions
run inside the JVM, and nothing in them raises: a line that does not parse has a `reason` instead.

The patterns mean the same to Java's regular expressions and to Python's. All their loops over characters are possessive
or lazy over one character, which Java runs without recursion: a line of any length does not overflow a stack.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Column

_QUOTED = r'"([^"\\\n]*+(?:\\[^\n][^"\\\n]*+)*+)"'
"""Text in quotes, where a backslash takes away the next character's meaning."""

LINE = (
    # host identity user [time]; only the user may have spaces.
    r"^([^ \n]++) ([^ \n]++) ([^\n]*?) \[([^\]\n]*+)\] "
    # "request" status size
    rf"{_QUOTED} ([0-9]{{3}}) ([0-9]++|-)"
    # "referer" "user agent", and anything that the server adds
    rf"(?: {_QUOTED} {_QUOTED})?+(?: [^\n]*+)?+[\r\n]*+(?![\s\S])"
)
"""A whole line. Groups: host, identity, user, time, request, status, size; referer and agent, which may be absent."""

REQUEST = r"^([A-Za-z-]++) ([^ ]++)(?: (HTTP/[0-9.]++))?+(?![\s\S])"
"""A request line. Groups: method, target, protocol (absent in HTTP/0.9)."""

TIME = "dd/MMM/yyyy:HH:mm:ss Z"
"""Pattern of `LINE`'s time, in Spark's datetime syntax."""

_YEAR = r"^[^/]*+/[^/]*+/[0-9]{4}:"
"""The beginning of a time whose year has four digits. Spark parses years that no timestamp can hold, and raises."""

NO_VALUE = "the record has no value"
NO_LINE = "not a line of the common or combined log format"
NO_TIME = "the time is not day/month/year:hour:minute:second zone"
NO_REQUEST = "the request is not a method, a target and a protocol"
REASONS = (NO_VALUE, NO_LINE, NO_TIME, NO_REQUEST)
"""The reasons why a record is not a request, in the order of the checks."""

FIELDS = ("host", "user", "time", "method", "target", "path", "protocol", "status", "bytes", "referer", "agent")
"""Fields of the structure that `parsed` makes, before `reason`."""

_MARK = "\u0001"
"""Separates groups. Servers escape control characters, so that no line has it."""


def parsed(value: Column) -> Column:
    """Parse a record's value (binary) into a structure of `FIELDS` and `reason`.

    `time` is a timestamp, `status` an int, `bytes` a bigint, the others are strings; `path` is the target
    without scheme, authority and query. A value that the server wrote as `-` is null. If the value is no request,
    `reason` is one of `REASONS` and everything else is null; otherwise `reason` is null.
    """
    from pyspark.sql import functions as F  # noqa: N812

    groups = _groups(value.cast("string"), LINE, 9)
    request = _groups(groups[4], REQUEST, 3)
    time = F.try_to_timestamp(F.when(F.regexp_like(groups[3], F.lit(_YEAR)), groups[3]), F.lit(TIME))
    reason = (
        F.when(value.isNull(), NO_VALUE)
        .when(groups.isNull(), NO_LINE)
        .when(time.isNull(), NO_TIME)
        .when(request.isNull(), NO_REQUEST)
    )
    columns = {
        "host": groups[0],
        "user": _given(groups[2]),
        "time": time,
        "method": request[0],
        "target": request[1],
        "path": path_of(request[1]),
        "protocol": _given(request[2]),
        "status": groups[5].cast("int"),
        "bytes": groups[6].try_cast("bigint"),
        "referer": _given(groups[7]),
        "agent": _given(groups[8]),
    }
    valid = [F.when(reason.isNull(), columns[name]).alias(name) for name in FIELDS]
    return F.struct(*valid, reason.alias("reason"))


def path_of(target: Column) -> Column:
    """Return the path of a request's target: `/a` for `/a?b` and `http://host/a#b`, `/` if it is empty."""
    from pyspark.sql import functions as F  # noqa: N812

    local = F.regexp_replace(target, r"^[A-Za-z][A-Za-z0-9+.-]*+://[^/?#]*+", "")
    path = F.regexp_replace(local, r"[?#][\s\S]*+", "")
    return F.when(path == "", "/").otherwise(path)


def status_class(status: Column) -> Column:
    """Return the class of a status: `2xx` for 200 to 299, and so on."""
    from pyspark.sql import functions as F  # noqa: N812

    return F.concat(F.floor(status / 100).cast("string"), F.lit("xx"))


def _groups(text: Column, pattern: str, count: int) -> Column:
    """Return the pattern's groups as an array of strings, empty for an absent group; null if the text does not match.

    One match finds all groups; `regexp_extract` would match once for each.
    """
    from pyspark.sql import functions as F  # noqa: N812

    joined = F.regexp_replace(text, pattern, _MARK.join(f"${number}" for number in range(1, count + 1)))
    parts = F.split(joined, _MARK)
    return F.when(~F.contains(text, F.lit(_MARK)) & (F.size(parts) == count), parts)


def _given(text: Column) -> Column:
    from pyspark.sql import functions as F  # noqa: N812

    return F.when(~text.isin("", "-"), text)
