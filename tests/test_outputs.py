"""Test that the report of a failure shows what processes have written."""

from __future__ import annotations

import os
from pathlib import Path

from tests.support.outputs import MOST_LINES, outputs_since


def test_the_last_lines_of_files_that_were_written_to(tmp_path: Path) -> None:
    for name in ("a/broker.out", "b/kafka.log", "b/words-0/00000000000000000000.log", "b/meta.properties", "old.err"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f"line {number}\n" for number in range(100)))
    os.utime(tmp_path / "old.err", (1, 1))
    os.utime(tmp_path / "a/broker.out", (100, 100))
    found = dict(outputs_since(tmp_path, 100.0))
    assert list(found) == ["a/broker.out", "b/kafka.log"]
    assert found["a/broker.out"].splitlines() == [f"line {number}" for number in range(100 - MOST_LINES, 100)]
