"""Test that `kafkalog log dump` tells of damaged files, and goes on with the others."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest

from broker.cli.log import dump
from kafkalog.records.batch import Record, encode_batch
from kafkalog.records.legacy.kafka_0_7 import encode_message
from tests.broker.log.tools.sample import sample

DAMAGED = {
    "00000000000000000030.txnindex": b"\xff" * 34,
    "leader-epoch-checkpoint": b"\xff\xfe",
    "00000000000000000030.snapshot": b"\xff" * 40,
    "00000000000000000030.log": b"\xff" * 100,
}


@pytest.fixture
def top(tmp_path: Path) -> Path:
    """A log directory whose files are partly damaged; others come after each of them."""
    log = sample(tmp_path)
    for name, content in DAMAGED.items():
        (log.dir / name).write_bytes(content)
    (tmp_path / "meta.properties").write_bytes(b"cluster.id=\xff\n")
    (tmp_path / "recovery-point-offset-checkpoint").write_bytes(b"0\n1\nt 0 5\n")
    return tmp_path


def run(*arguments: str) -> int:
    parser = argparse.ArgumentParser()
    dump.add_parser(parser.add_subparsers())
    parsed = parser.parse_args(["dump", *arguments])
    return int(parsed.run(parsed))


def test_text(top: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(str(top), "--deep-iteration") == 1
    printed = capsys.readouterr()
    dumped = {line.removeprefix("Dumping ") for line in printed.out.splitlines() if line.startswith("Dumping ")}
    assert {Path(name).name for name in dumped} >= {*DAMAGED, "recovery-point-offset-checkpoint"}
    txn_index = top / "t-0" / "00000000000000000030.txnindex"
    assert f"{txn_index}: version -1 of an aborted transaction" in printed.err.splitlines()
    assert "topic: t partition: 0 offset: 5" in printed.out


def test_json(top: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(str(top), "--json", "--deep-iteration") == 1
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    problems = {Path(row["file"]).name: row["problem"] for row in rows if row["type"] == "problem"}
    assert problems.keys() == {*DAMAGED, "meta.properties"}
    assert problems["00000000000000000030.txnindex"] == "version -1 of an aborted transaction"
    assert [row["offset"] for row in rows if row["type"] == "checkpoint"] == [5]


DAMAGES = {"checksum": lambda data: data[:-1] + bytes((data[-1] ^ 1,)), "tail": lambda data: data[:-1]}


@pytest.mark.parametrize("form", [[], ["--json"]])
@pytest.mark.parametrize("what", DAMAGES)
def test_a_damaged_log_fails_the_command(tmp_path: Path, form: list[str], what: str) -> None:
    log = tmp_path / f"{0:020d}.log"
    # Text of a user is no damage, whatever it says.
    data = bytes(encode_batch([Record(0, 5, b"k", b"isvalid: false"), Record(1, 5, None, b"Found 1 invalid bytes")]))
    log.write_bytes(data)
    assert run(str(log), "--print-data-log", *form) == 0
    log.write_bytes(DAMAGES[what](data))
    assert run(str(log), *form) == 1


def test_the_text_of_a_message_of_0_7_is_no_damage(tmp_path: Path) -> None:
    log = tmp_path / f"{0:011d}.kafka"
    log.write_bytes(encode_message(b"isvalid: false"))
    assert run(str(log), "--print-data-log") == 0


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_at_most_so_many_bytes(tmp_path: Path, capsys: pytest.CaptureFixture[str], form: list[str]) -> None:
    log = tmp_path / f"{0:020d}.log"
    batch = bytes(encode_batch([Record(0, 5, b"k", b"v")]))
    log.write_bytes(batch + bytes(encode_batch([Record(1, 5, b"k", b"v")], base_offset=1)))
    for size, batches in ((0, 0), (len(batch) - 1, 0), (len(batch) + 7, 1), (2 * len(batch), 2)):
        assert run(str(log), "--max-bytes", str(size), *form) == 0
        printed = capsys.readouterr().out.splitlines()
        assert sum("position" in line for line in printed) == batches


@pytest.mark.parametrize("options", [["--max-bytes", "-1"], ["--json", "--skip-record-metadata"]])
def test_options_that_cannot_be(tmp_path: Path, options: list[str]) -> None:
    with pytest.raises(SystemExit) as refused:
        run(str(tmp_path), *options)
    assert refused.value.code == 2
