"""Test that standard output takes what its encoding does not have."""

from __future__ import annotations

import pytest

from tests.support.command import start


@pytest.mark.usefixtures("processes")
def test_characters_that_the_encoding_lacks_become_escapes() -> None:
    with start("groups", "list", "--help", environment={"PYTHONIOENCODING": "ascii"}) as process:
        out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, b"")
    assert b"HOST:PORT[,\\u2026]" in out
