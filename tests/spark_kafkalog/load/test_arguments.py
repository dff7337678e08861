"""Tests of the client properties of a load's command line."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from spark_kafkalog.load.arguments import UsageError, client_properties


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
