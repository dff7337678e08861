"""Test where the actions of commands may stand: as with Kafka's tools, they may be options, or come after some."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkalog.cli.parser import action_first
from tests.support.command import call

ACTIONS = ("list", "describe")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("list --topic t", "list --topic t"),
        ("--topic t --list", "list --topic t"),
        ("--bootstrap-server x:1 list --topic t", "list --bootstrap-server x:1 --topic t"),
        ("--bootstrap-server=x:1 --timeout 9 list", "list --bootstrap-server=x:1 --timeout 9"),
        ("--bootstrap-server list describe", "describe --bootstrap-server list"),
        ("--bootstrap-server x:1 nothing", "nothing --bootstrap-server x:1"),
        # What cannot be told apart is left to argparse.
        ("--topic list", "--topic list"),
        ("--list --describe", "--list --describe"),
        ("list --describe", "list --describe"),
        ("--bootstrap-server x:1", "--bootstrap-server x:1"),
        ("--bootstrap-server", "--bootstrap-server"),
        ("--help", "--help"),
    ],
)
def test_the_action_comes_first(words: str, expected: str) -> None:
    assert action_first(words.split(), ACTIONS) == expected.split()


@pytest.mark.parametrize(
    ("tool", "action"), [("groups", "list"), ("topics", "list"), ("features", "describe"), ("transactions", "list")]
)
def test_lines_for_kafkas_tools(broker_address: str, tmp_path: Path, tool: str, action: str) -> None:
    (tmp_path / "config").write_text("client.id=tool\n")
    where = ("--bootstrap-server", broker_address, "--command-config", str(tmp_path / "config"))
    usual = call(tool, action, *where).out
    assert call(tool, f"--{action}", *where).out == call(tool, *where, f"--{action}").out == usual
    assert call(tool, *where, action).out == usual
