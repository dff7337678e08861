"""Tests of the primitive types."""

from __future__ import annotations

import pytest

from kafkalog.protocol.primitives import MAX_STRING, fits_string


@pytest.mark.parametrize(
    ("text", "fits"),
    [
        (None, True),
        ("", True),
        ("a" * MAX_STRING, True),
        ("a" * (MAX_STRING + 1), False),
        ("\ufffd" * (MAX_STRING // 3), True),
        ("\ufffd" * (MAX_STRING // 3 + 1), False),
        ("\N{GRINNING FACE}" * (MAX_STRING // 4), True),
        ("\N{GRINNING FACE}" * (MAX_STRING // 4 + 1), False),
    ],
)
def test_a_string_has_so_many_bytes(text: str | None, fits: bool) -> None:
    assert fits_string(text) is fits
