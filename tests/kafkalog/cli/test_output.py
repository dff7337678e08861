"""Test that standard output takes what its encoding does not have."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.command import start

ENCODINGS = ("ascii", "ascii:surrogateescape", "latin-1", "utf-8:surrogateescape", "utf-8")


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize("encoding", ["ascii", "ascii:surrogateescape"])
def test_characters_that_the_encoding_lacks_become_escapes(encoding: str) -> None:
    with start("groups", "list", "--help", environment={"PYTHONIOENCODING": encoding}) as process:
        out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, b"")
    assert b"HOST:PORT[,\\u2026]" in out


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize("encoding", ENCODINGS)
def test_json_is_valid_in_every_encoding(tmp_path: Path, encoding: str) -> None:
    # The last name is no UTF-8.
    directories = [tmp_path / f"{name}-0" for name in ("é", "日本", "😀", "\udcff")]
    for directory in directories:
        directory.mkdir()
        (directory / "leader-epoch-checkpoint").write_bytes(b"\xff")
    files = [str(directory / "leader-epoch-checkpoint") for directory in directories]
    with start("log", "dump", *files, "--json", environment={"PYTHONIOENCODING": encoding}) as process:
        out, err = process.communicate(timeout=60)
    rows = [json.loads(line) for line in out.decode(encoding.partition(":")[0]).splitlines()]
    assert [row["file"] for row in rows] == files
    assert b"Traceback" not in err
