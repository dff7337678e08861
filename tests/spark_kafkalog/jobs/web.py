"""Real lines for the jobs, and the expected results, computed without Spark and without patterns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

DATA = Path(__file__).parents[2] / "data" / "web"
MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]

PERFECT = b'%s - - [%s] "GET %s HTTP/1.1" 200 10 "-" "test"'


def access_lines() -> list[bytes]:
    return (DATA / "access.log").read_bytes().splitlines()


def status_lines() -> list[bytes]:
    return (DATA / "nginx_status.jsonl").read_bytes().splitlines()


class Seen(NamedTuple):
    """A request."""

    host: str
    time: datetime
    method: str
    path: str
    status: int
    size: int | None


def seen(line: bytes) -> Seen:
    """Split a line of the combined log at its blanks and quotes."""
    before, request, after, *_ = line.decode().split('"')
    host, _, _, clock, zone = before.split()
    day, month, year_and_time = clock.lstrip("[").split("/")
    year, hour, minute, second = year_and_time.split(":")
    moment = datetime(int(year), MONTHS.index(month) + 1, int(day), int(hour), int(minute), int(second), tzinfo=UTC)
    zone = zone.rstrip("]")
    away = timedelta(hours=int(zone[1:3]), minutes=int(zone[3:5]))
    method, target, _ = request.split()
    status, size = after.split()
    path = target.partition("#")[0].partition("?")[0]
    return Seen(
        host,
        moment + away if zone[0] == "-" else moment - away,
        method,
        path or "/",
        int(status),
        None if size == "-" else int(size),
    )


class View(NamedTuple):
    """A row of the roll-up."""

    hour: datetime
    path: str
    status_class: str
    views: int
    bytes: int


def closed_views(lines: Iterable[bytes]) -> set[View]:
    """Count GET requests by hour, path and status class, for hours that a watermark of one hour has closed."""
    requests = [seen(line) for line in lines]
    watermark = max(request.time for request in requests) - timedelta(hours=1)
    views: Counter[tuple[datetime, str, str]] = Counter()
    sizes: Counter[tuple[datetime, str, str]] = Counter()
    for request in requests:
        hour = request.time.replace(minute=0, second=0)
        if request.method == "GET" and hour + timedelta(hours=1) <= watermark:
            row = hour, request.path, f"{request.status // 100}xx"
            views[row] += 1
            sizes[row] += request.size or 0
    return {View(*row, count, sizes[row]) for row, count in views.items()}
