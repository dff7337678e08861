"""Test that no module is longer than a reader keeps in mind: a longer one has more than one purpose."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.packages import PACKAGES

ROOT = Path(__file__).parents[1]
MOST_LINES = 500


@pytest.mark.parametrize("package", PACKAGES)
def test_modules_are_short(package: str) -> None:
    lengths = {
        path.relative_to(ROOT).as_posix(): path.read_text().count("\n") for path in (ROOT / package).rglob("*.py")
    }
    assert {path: lines for path, lines in lengths.items() if lines > MOST_LINES} == {}
