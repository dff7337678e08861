"""Test that commands are found in the metadata of the installed packages."""

from __future__ import annotations

import sys
from importlib import import_module, metadata
from pathlib import Path

import pytest

from kafkalog.cli.command import Command
from kafkalog.cli.entry_points import GROUP, NoCommandsError, find_commands, read_entry_points
from tests.support.command import call


def announce(directory: Path, entry_points: str) -> None:
    """Write the metadata of an installed package."""
    place = directory / "more-1.0.dist-info"
    place.mkdir(parents=True)
    (place / "METADATA").write_text("Metadata-Version: 2.1\nName: more\nVersion: 1.0\n")
    (place / "entry_points.txt").write_text(entry_points)


def test_the_metadata_is_read_as_the_standard_library_reads_it() -> None:
    expected = {each.name: each.value for each in metadata.entry_points(group=GROUP)}
    assert set(expected) >= {"broker", "clients", "spark"}
    assert read_entry_points(sys.path) == expected


def test_every_command_has_a_module_that_adds_its_parser() -> None:
    commands = find_commands()
    assert [each.name for each in commands] == [
        "server", "zookeeper", "cluster", "topics", "configs", "groups", "offsets", "transactions", "reassign", "elect",
        "isr", "delete-records", "delegation-tokens", "get-offsets", "acls", "features", "log-dirs", "produce",
        "consume", "mirror", "load", "log", "spark", "perf", "quickstart",
    ]  # fmt: skip
    for command in commands:
        assert callable(import_module(command.module).add_parser)


def test_another_package_adds_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    announce(
        tmp_path, f"[console_scripts]\nx = y:z\n\n[{GROUP}]\n# a comment\nmore = more_commands:TABLE\n[other]\na=b"
    )
    (tmp_path / "more_commands.py").write_text(
        "from kafkalog.cli.command import Command\nTABLE = [Command('zoo', 'feed the keeper', 'more_zoo')]\n"
    )
    (tmp_path / "more_zoo.py").write_text(
        "def add_parser(commands):\n"
        "    commands.add_parser('zoo').set_defaults(run=lambda arguments: print('fed') or 0)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    assert read_entry_points([str(tmp_path), str(tmp_path / "nowhere")]) == {"more": "more_commands:TABLE"}
    last = find_commands()[-1]
    assert isinstance(last, Command)
    assert (last.name, last.summary) == ("zoo", "feed the keeper")
    assert call("zoo").out == ["fed"]


@pytest.mark.parametrize("value", ["no_such_module:TABLE", "kafkalog.cli.command:NO_TABLE", "sys:path", "sys:maxsize"])
def test_a_table_that_cannot_be_loaded_leaves_the_other_commands(
    value: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    announce(tmp_path, f"[{GROUP}]\nmore = {value}\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert "topics" in [each.name for each in find_commands()]
    assert f"the commands of more ({value}) cannot be loaded" in capsys.readouterr().err


def test_an_installation_without_entry_points_says_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    with pytest.raises(NoCommandsError, match="install kafkalog again"):
        find_commands()
    assert "pip install -e ." in call("topics", check=1).err
