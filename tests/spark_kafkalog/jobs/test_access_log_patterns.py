"""Test the patterns of access-log lines in Python's engine; `test_expressions` holds Spark's to the same."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_kafkalog.jobs import access_log
from tests.spark_kafkalog.jobs import web

LINE = re.compile(access_log.LINE)
REQUEST = re.compile(access_log.REQUEST)

token = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"], exclude_characters=' "\\[]'), min_size=1)
inside = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"], exclude_characters='"\\'))
quoted = st.lists(st.one_of(inside, st.sampled_from(['\\"', "\\\\", "\\x16"])), max_size=6).map("".join)
size = st.one_of(st.just("-"), st.integers(0, 10**12).map(str))
end = st.sampled_from(["", "\n", "\r\n", ' "10.0.0.1"', " 0.003 -"])


@given(token, token, st.lists(token, min_size=1, max_size=3).map(" ".join), token, quoted, size, quoted, quoted, end)
def test_the_combined_format_is_taken_apart(
    host: str, identity: str, user: str, time: str, request: str, size: str, referer: str, agent: str, end: str
) -> None:
    found = LINE.match(f'{host} {identity} {user} [{time}] "{request}" 304 {size} "{referer}" "{agent}"{end}')
    assert found is not None
    assert found.groups() == (host, identity, user, time, request, "304", size, referer, agent)


@given(token, token, quoted, size, st.sampled_from(["", "\n", " 12"]))
def test_the_common_format_is_taken_apart(host: str, time: str, request: str, size: str, end: str) -> None:
    found = LINE.match(f'{host} - - [{time}] "{request}" 200 {size}{end}')
    assert found is not None
    assert found.groups() == (host, "-", "-", time, request, "200", size, None, None)


def test_every_real_line_is_taken_apart_as_at_its_blanks_and_quotes() -> None:
    for line in web.access_lines():
        found = LINE.match(line.decode())
        assert found is not None
        seen = web.seen(line)
        request = REQUEST.match(found[5])
        assert request is not None
        assert (found[1], request[1], int(found[6])) == (seen.host, seen.method, seen.status)
        assert found[7] == ("-" if seen.size is None else str(seen.size))


@pytest.mark.parametrize(
    "line",
    [
        "",
        " ",
        "GET / HTTP/1.1",
        'h - - [t] "GET / HTTP/1.1" 20 1',
        'h - - [t] "GET / HTTP/1.1" 200 1k',
        'h - - [t] "GET / HTTP/1.1" 200',
        'h - - [t] "GET / HTTP/1.1 200 1',
        'h - - t "GET / HTTP/1.1" 200 1',
        'h - - [t] "GET / HTTP/1.1" 200 1\nh - - [t] "GET / HTTP/1.1" 200 1',
        'h - - [t] "GET /\nHTTP/1.1" 200 1',
        'h - - [t] "GET / HTTP/1.1" ٢٠٠ 1',
    ],
)
def test_other_lines_do_not_match(line: str) -> None:
    assert LINE.match(line) is None


@pytest.mark.parametrize(
    ("request_line", "groups"),
    [
        ("GET /a?b=c HTTP/1.1", ("GET", "/a?b=c", "HTTP/1.1")),
        ("GET /", ("GET", "/", None)),
        ("OPTIONS * HTTP/1.0", ("OPTIONS", "*", "HTTP/1.0")),
        ("M-SEARCH http://h/p HTTP/2.0", ("M-SEARCH", "http://h/p", "HTTP/2.0")),
        ("-", None),
        ("", None),
        ("\\x16\\x03\\x01", None),
        ("GET /a b HTTP/1.1", None),
        ("GET  HTTP/1.1 x", None),
        ("GET / FTP/1.1", None),
    ],
)
def test_requests(request_line: str, groups: tuple[str | None, ...] | None) -> None:
    found = REQUEST.match(request_line)
    assert (found.groups() if found else None) == groups
