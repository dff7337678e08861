"""Test that a load says what is wrong in the words of its own options, not in those of the Spark source."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from spark_kafkalog.load import load_options
from spark_kafkalog.options import source_options
from tests.spark_kafkalog.load.loading import Loading
from tests.support.command import call


def said(bootstrap: str, topic: str, *more: str) -> str:
    """Return the line that a load says that is refused."""
    given = ["--bootstrap-server", bootstrap, "--topic", topic, "--to", "/none", "--without-spark"]
    (line,) = call("load", *given, *more, check=2).err.splitlines()
    return line.removeprefix("kafkalog: ")


def test_offsets_of_other_partitions_than_the_topic_has(local_loading: Loading) -> None:
    topic = local_loading.topics.create("named", 3)

    def refused(option: str, offsets: dict[str, int]) -> str:
        return said(local_loading.topics.bootstrap, topic, option, json.dumps({topic: offsets}))

    assert refused("--from-offsets", {"1": 0}) == (
        f"--from-offsets leaves out {topic}-0, {topic}-2: give an offset for every partition; -2 stands for earliest "
        "and -1 for latest"
    )
    assert refused("--until", {"1": 0, "2": 0}) == (
        f"--until leaves out {topic}-0: give an offset for every partition; -1 stands for latest"
    )
    for option in ("--from-offsets", "--until"):
        assert refused(option, {"0": 0, "1": 0, "2": 0, "7": 0}) == f"{option} names {topic}-7, which does not exist"


def test_offsets_that_cannot_be_used() -> None:
    assert said("x:1", "t", "--until", '{"t":{"0":-2}}') == (
        "--until: offset -2 of t-0 cannot be used there; give one from 0 on, or -1 for latest"
    )
    assert said("x:1", "t", "--from-offsets", '{"t":{"0":-3}}') == (
        "--from-offsets: offset -3 of t-0 cannot be used there; give one from 0 on, -1 for latest, or -2 for earliest"
    )
    assert "-2" not in said("x:1", "t", "--until", '{"t":1}')


@pytest.mark.parametrize("pattern", [False, True])
def test_a_client_property_is_named_as_it_was_given(pattern: bool, tmp_path: Path) -> None:
    what = ["--topic-pattern", "t"] if pattern else ["--topic", "t"]
    given = ["load", "--bootstrap-server", "x:1", *what, "--to", str(tmp_path), "--without-spark"]
    done = call(*given, "--consumer-property", "security.protocol=FOO", check=2)
    assert done.err.startswith("kafkalog: security.protocol=FOO: expected ")


def test_warnings_name_a_client_property_as_it_was_given(caplog: pytest.LogCaptureFixture) -> None:
    properties = {"group.id": "g", "fetch.min.byte": "1", "security.protocol": "FOO", "max.poll.recordss": "1"}
    options = load_options.LoadOptions("x:1", ("t",), "/none", properties=properties | {"security.protocol": "SSL"})
    options.source("t")
    assert "fetch.min.byte is not known" in caplog.text
    assert "kafka." not in caplog.text


@pytest.mark.parametrize("name", source_options.REFUSED_PROPERTIES)
def test_a_property_that_no_load_can_have(name: str, tmp_path: Path) -> None:
    shared = tmp_path / "client.properties"
    shared.write_text(f"{name}=earliest\n")
    err = said("x:1", "t", "--command-config", str(shared))
    assert err.startswith(f"the client property {name} cannot be set for a load: ")
    assert "Spark" not in err
    assert "DataFrame" not in err
    if name == "auto.offset.reset":
        assert "--from earliest" in err
