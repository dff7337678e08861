"""Tests of a load's command line: client properties, and where options may stand."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from spark_kafkalog.load.arguments import UsageError, add_options, client_properties


def read(file: Path, *words: str) -> dict[str, str]:
    return client_properties(argparse.Namespace(command_config=str(file), consumer_property=list(words)))


def test_files_are_read_as_java_reads_them(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text(
        "# a comment\n"
        "sasl.password: s3cret\n"
        "sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required \\\n"
        '    username="me" \\\n'
        '    password="s3cret";\n'
        "sasl.mechanism = PLAIN \n"
        "client.id=a\n"
    )
    login = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="me" password="s3cret";'
    assert read(file, "client.id=b") == {
        "sasl.password": "s3cret",
        "sasl.jaas.config": login,
        "sasl.mechanism": "PLAIN",
        "client.id": "b",
    }


def test_errors_name_the_file_and_the_line_and_no_value(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("client.id=a\nsasl.password: s3cret\\u12\n")
    with pytest.raises(UsageError) as raised:
        read(file)
    assert str(raised.value) == f"--command-config {file}: Line 2 of the properties has a malformed \\uxxxx escape"
    with pytest.raises(UsageError) as raised:
        read(tmp_path / "none")
    assert str(raised.value) == f"--command-config {tmp_path / 'none'}: No such file or directory"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--to", "/t", "status"], "status takes only options that follow it, not --to before it"),
        (["--dry-run", "compact", "--to", "/t"], "compact takes only options that follow it, not --dry-run before it"),
        (["--topic", "a", "compact", "--to", "/t", "--topic", "b"], "not --topic before it"),
        (["--json", "--from", "latest", "--no-fail-on-data-loss", "status"], "not --json, --from, --fail-on-data-loss"),
        (["compact", "--to", "/t", "--dry-run"], "unrecognized arguments: --dry-run"),
    ],
)
def test_options_before_a_command_are_refused(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """They would have no effect: `--dry-run compact` would compact, and `--topic a compact` all topics."""
    parser = argparse.ArgumentParser("kafkalog load")
    add_options(parser)
    with pytest.raises(SystemExit) as raised:
        parser.parse_args(words)
    assert raised.value.code == 2
    assert message in capsys.readouterr().err


def test_options_after_a_command_are_taken() -> None:
    parser = argparse.ArgumentParser("kafkalog load")
    add_options(parser)
    found = parser.parse_args(["compact", "--to", "/t", "--topic", "a", "--topic", "b"])
    assert (found.action, found.to, found.topic) == ("compact", "/t", ["a", "b"])
    found = parser.parse_args(["--to", "/t", "--dry-run", "--topic", "compact"])
    assert (found.action, found.to, found.topic, found.dry_run) == (None, "/t", ["compact"], True)
