"""Tests of `kafkalog load` as a user runs it, and of the spark-submit application."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyspark
import pytest

from peers.cache import require
from peers.toolchains import java
from spark_kafkalog.faults import ORDERS, TESTING
from spark_kafkalog.jobs import load as application
from spark_kafkalog.load.progress_bar import ProgressBar, line
from spark_kafkalog.load.runner import task_error
from tests.spark_kafkalog.load.loading import Loading, expected
from tests.spark_kafkalog.topics import Topics, numbers
from tests.support.command import command, run

SPARK_DEADLINE_S = 240.0


@pytest.fixture
def words(topics: Topics, local_target: str) -> Callable[[str], list[str]]:
    """The words of a load of a topic."""

    def given(topic: str) -> list[str]:
        return ["load", "--bootstrap-server", topics.bootstrap, "--topic", topic, "--to", local_target]

    return given


def load(words: list[str], *more: str, check: int = 0) -> tuple[str, str]:
    """Standard output and errors of a load without Spark."""
    done = run(*words, "--without-spark", *more, check=check)
    return done.stdout.decode(), done.stderr.decode()


def test_a_load(local_loading: Loading, words: Callable[[str], list[str]]) -> None:
    topic = local_loading.topics.create("cli")
    sent = local_loading.topics.produce(topic, numbers(20))
    out, err = load(words(topic))
    assert re.match(rf"{topic}: 20 rows in \d files \(.* MB\) as {local_loading.path(topic)}/load=0000000000 in ", out)
    assert err == "", "there is no progress bar where there is no terminal"
    assert load(words(topic)) == (f"{topic}: nothing new since load 0\n", "")
    assert local_loading.check(topic) == expected(sent)


def test_json(local_loading: Loading, words: Callable[[str], list[str]]) -> None:
    topics = [local_loading.topics.create("json", 2) for _ in range(2)]
    local_loading.topics.produce(topics[0], numbers(20))
    found = json.loads(load(words(",".join(topics)), "--json")[0])
    first, second = found["loads"]
    assert (first["topic"], first["published"], first["rows"], first["load"]) == (topics[0], True, 20, 0)
    assert {number: each["rows"] for number, each in first["partitions"].items()}.keys() == {"0", "1"}
    assert second == {"topic": topics[1], "published": False}


def test_a_dry_run_touches_nothing(
    local_loading: Loading, words: Callable[[str], list[str]], local_target: str
) -> None:
    topic = local_loading.topics.create("dry", 2)
    local_loading.topics.produce(topic, numbers(20), partition=1)
    out, _ = load(words(topic), "--dry-run", "--min-splits", "3")
    lines = [each.split() for each in out.splitlines()]
    assert lines == [
        [f"{topic}:", "load", "0,", "20", "offsets", "in", "3", "splits"],
        ["partition", "start", "end", "offsets", "splits"],
        ["0", "0", "0", "0", "0"],
        ["1", "0", "20", "20", "3"],
    ]
    assert not Path(local_target).exists()
    (plan,) = json.loads(load(words(topic), "--dry-run", "--json", "--min-splits", "1")[0])["plans"]
    assert plan["splits"] == [{"topic": topic, "partition": 1, "start": 0, "end": 20}]


def test_status(local_loading: Loading, words: Callable[[str], list[str]], local_target: str) -> None:
    topic = local_loading.topics.create("status", 2)
    for count in (20, 30):
        local_loading.topics.produce(topic, numbers(count), partition=1)
        local_loading.load(topic)
    local_loading.topics.produce(topic, numbers(7), partition=1)
    out = run("load", "status", "--to", local_target).stdout.decode()
    assert [each.split() for each in out.splitlines()][:4] == [
        [topic],
        ["partition", "loaded", "latest", "lag"],
        ["0", "0", "-", "-"],
        ["1", "50", "-", "-"],
    ]
    server = ["--bootstrap-server", local_loading.topics.bootstrap]
    found = json.loads(run("load", "status", "--to", local_target, "--topic", topic, *server, "--json").stdout)
    (status,) = found["topics"]
    assert status["partitions"][1] == {"partition": 1, "loaded": 50, "latest": 57, "lag": 7}
    assert [(each["load"], each["rows"]) for each in status["loads"]] == [(0, 20), (1, 30)]


def test_status_of_topics_that_are_gone(local_loading: Loading, local_target: str) -> None:
    """One of them hides no other."""
    topics = local_loading.topics
    kept, deleted, recreated = (topics.create(f"status-{name}") for name in ("kept", "deleted", "recreated"))
    for topic in (kept, deleted, recreated):
        topics.produce(topic, numbers(5))
        local_loading.load(topic)
    topics.delete(deleted)
    topics.delete(recreated)
    topics.create_named(recreated)
    topics.produce(recreated, numbers(9))
    asked = ["load", "status", "--to", local_target, "--bootstrap-server", topics.bootstrap]
    found = {each["topic"]: each for each in json.loads(run(*asked, "--json").stdout)["topics"]}
    assert {topic: (each["state"], each["partitions"][0]["lag"]) for topic, each in found.items()} == {
        kept: ("same", 0),
        deleted: ("missing", None),
        recreated: ("recreated", None),
    }
    out = run(*asked).stdout.decode()
    assert "the brokers do not know this topic" in out
    assert "the brokers have another topic of this name" in out


def test_compact(local_loading: Loading, local_target: str) -> None:
    topic = local_loading.topics.create("compact-cli")
    for _ in range(3):
        local_loading.topics.produce(topic, numbers(5))
        local_loading.load(topic)
    rows = local_loading.rows(topic)
    out = run("load", "compact", "--to", local_target, "--topic", topic).stdout.decode()
    assert re.match(rf"{topic}: \d+ files became \d \(15 rows, 0.0 MB\)", out)
    assert local_loading.rows(topic) == rows
    done = run("load", "compact", "--to", local_target, "--topic", topic, "--loads", "0-1", "--json")
    assert json.loads(done.stdout)["compacted"][0]["files_before"] == 0


def test_what_cannot_be_compacted_keeps_no_other_from_it(local_loading: Loading, local_target: str) -> None:
    raw, good = (local_loading.topics.create(f"compact-{name}") for name in ("a-raw", "b-good"))
    for topic in (raw, good):
        for _ in range(2):
            local_loading.topics.produce(topic, numbers(5))
            local_loading.load(topic, format="raw" if topic == raw else "parquet")
    done = run("load", "compact", "--to", local_target)
    assert re.search(rf"^{good}: 4 files became 1 ", done.stdout.decode(), re.MULTILINE)
    assert f"the loads of {raw} are raw; only parquet can be compacted" in done.stderr.decode()
    asked = run("load", "compact", "--to", local_target, "--topic", f"{raw},{good}", check=1)
    assert f"{good}: nothing to merge" in asked.stdout.decode()


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["load"], "--bootstrap-server is missing"),
        (["load", "--bootstrap-server", "x:1", "--topic", "a"], "--to is missing"),
        (["load", "--bootstrap-server", "x:1", "--to", "/tmp/a"], "--topic is missing"),
        (["load", "--bootstrap-server", "x:1", "--topic", "a", "--to", "s3a://b/c"], "s3a://b/c: loads go to hdfs://"),
        (["load", "--bootstrap-server", "x:1", "--topic", "a b", "--to", "/tmp/a"], "a b: is no name of a topic"),
        (["load", "--bootstrap-server", "x:1", "--topic", "a", "--to", "/t", "--until", "soon"], "--until soon"),
        (["load", "--bootstrap-server", "x:1", "--topic", "a", "--to", "/t", "--until", ""], "--until is empty"),
        (
            ["load", "--bootstrap-server", "x:1", "--topic", "a", "--to", "/t", "--from-offsets", "{"],
            "--from-offsets: Expected e.g.",
        ),
        (
            ["load", "--bootstrap-server", "x:1", "--topic", "a", "--to", "/t", "--from-offsets", "latest"],
            "use --from latest",
        ),
        (["load", "--bootstrap-server", "x", "--topic", "a", "--to", "/t"], "bootstrap.servers"),
        (["load", "--bootstrap-server", "x:1", "--topic", "a", "--to", "/t", "--format", "orc"], "--format orc"),
        (["load", "--bootstrap-server", "x:1", "--topic", "a", "--to", "/t", "--consumer-property", "a"], "KEY=VALUE"),
        (
            ["load", "--bootstrap-server", "x:1", "--topic", "a", "--to", "/t", "--command-config", "/no"],
            "/no: No such",
        ),
        (["load", "status"], "--to is missing"),
        (
            ["load", "--bootstrap-server", "x:1", "--topic", "a", "--topic-pattern", "a", "--to", "/t"],
            "--topic and --topic-pattern cannot be used together",
        ),
        (
            ["load", "--bootstrap-server", "x:1", "--topic-pattern", "(", "--to", "/t"],
            "--topic-pattern '(' is no regular expression",
        ),
        (
            ["load", "--bootstrap-server", "x:1", "--topic-pattern", "a", "--to", "/t", "--until", '{"a":{"0":1}}'],
            "--until names offsets, and --topic-pattern no topics",
        ),
    ],
)
def test_wrong_usage(given: list[str], message: str) -> None:
    done = run(*given, check=2)
    (said,) = done.stderr.decode().splitlines()
    assert said.startswith("kafkalog: ")
    assert message in said
    assert done.stdout in (b"", b'{"loads": []}\n')


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize("action", ["status", "compact"])
def test_where_nothing_was_loaded(action: str, tmp_path: Path) -> None:
    """A directory without loads is an answer; a named topic without loads is a failure."""
    there = ["load", action, "--to", str(tmp_path)]
    done = run(*there, check=0)
    assert done.stderr.decode() == f"kafkalog: there are no loads in {tmp_path}\n"
    assert json.loads(run(*there, "--json").stdout) == {"topics" if action == "status" else "compacted": []}
    assert run(*there, "--topic", "a", check=1).stderr.decode() == f"kafkalog: there are no loads of a in {tmp_path}\n"


def test_a_pattern_of_topics(local_loading: Loading, local_target: str) -> None:
    stem = local_loading.topics.name("pattern")
    for name in "ab":
        local_loading.topics.create_named(f"{stem}-{name}")
        local_loading.topics.produce(f"{stem}-{name}", numbers(3))
    asked = ["load", "--bootstrap-server", local_loading.topics.bootstrap, "--to", local_target, "--topic-pattern"]
    out, _ = load([*asked, f"^{stem}-[ab]$"], "--dry-run")
    assert f"{stem}-b: load 0, 3 offsets" in out
    out, _ = load([*asked, f"^{stem}-[ab]$"])
    assert [line.partition(" in ")[0] for line in out.splitlines()] == [f"{stem}-{name}: 3 rows" for name in "ab"]
    assert load([*asked, f"{stem}-c"]) == ("", f"kafkalog: --topic-pattern {stem}-c: no topic matches\n")


@pytest.mark.parametrize(("number", "code"), [("SIGINT", 130), ("SIGTERM", 143)])
def test_an_interrupted_load_says_what_there_is(
    local_loading: Loading, words: Callable[[str], list[str]], tmp_path: Path, number: str, code: int
) -> None:
    topic = local_loading.topics.create("interrupted")
    local_loading.topics.produce(topic, numbers(3))
    (tmp_path / "splits-done").write_text(number)
    environment = {**os.environ, ORDERS: str(tmp_path), TESTING: "1"}
    done = subprocess.run(
        command(*words(topic), "--without-spark"),
        capture_output=True,
        timeout=SPARK_DEADLINE_S,
        check=False,
        env=environment,
    )
    assert done.returncode == code
    (said,) = done.stderr.decode().splitlines()
    assert said.startswith(f"kafkalog: interrupted while {topic} was loaded.")
    assert local_loading.history(topic) == []
    assert "3 rows" in load(words(topic))[0]


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize(
    ("missing", "words", "extra"),
    [
        ("pyarrow", ["load", "status", "--to", "/t"], "kafkalog[arrow]"),
        (
            "pyarrow",
            ["load", "--without-spark", "--bootstrap-server", "x:1", "--topic", "a", "--to", "/t"],
            "kafkalog[arrow]",
        ),
        ("pyarrow", ["load", "--bootstrap-server", "x:1", "--topic", "a", "--to", "/t"], "kafkalog[spark]"),
    ],
)
def test_the_extra_that_is_missing(missing: str, words: list[str], extra: str) -> None:
    script = (
        f"import sys\nsys.modules[{missing!r}] = None\nfrom kafkalog.cli.main import main\nsys.exit(main({words!r}))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert f"pip install '{extra}'" in done.stderr


@pytest.mark.usefixtures("processes")
def test_an_unreachable_broker(local_target: str) -> None:
    fast = ["--consumer-property", "default.api.timeout.ms=1000"]
    given = ["load", "--bootstrap-server", "127.0.0.1:1", "--topic", "a", "--to", local_target, *fast]
    *_, said = run(*given, check=1).stderr.decode().splitlines()
    # The last try may have had no time left. Then the reason of the one before follows.
    assert re.match(r"kafkalog: gave up after \d+ tries: .*cannot connect to 127\.0\.0\.1:1", said)
    assert not Path(local_target).exists()


def test_an_unknown_topic(words: Callable[[str], list[str]]) -> None:
    (said,) = load(words("no-such-topic"), check=1)[1].splitlines()
    assert "no-such-topic" in said


def test_a_recreated_topic(local_loading: Loading, words: Callable[[str], list[str]]) -> None:
    topic = local_loading.topics.create("recreated-cli")
    local_loading.topics.produce(topic, numbers(3))
    load(words(topic))
    local_loading.topics.delete(topic)
    local_loading.topics.create_named(topic)
    local_loading.topics.produce(topic, numbers(5))
    (said,) = load(words(topic), check=1)[1].splitlines()
    assert "--on-recreated-topic restart" in said
    assert "5 rows" in load(words(topic), "--on-recreated-topic", "restart")[0]


def test_data_loss(local_loading: Loading, words: Callable[[str], list[str]]) -> None:
    topic = local_loading.topics.create("loss-cli")
    local_loading.topics.produce(topic, numbers(10), partition=0)
    local_loading.topics.delete_records(topic, 0, 4)
    given = [*words(topic), "--from-offsets", json.dumps({topic: {"0": 0}})]
    (said,) = load(given, check=1)[1].splitlines()
    assert f"4 offsets that were to be loaded are gone: {topic}-0 [0, 4)" in said
    assert "6 rows" in load(given, "--no-fail-on-data-loss")[0]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_directory_without_permission(local_loading: Loading, tmp_path: Path) -> None:
    topic = local_loading.topics.create("permission")
    local_loading.topics.produce(topic, numbers(3))
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o500)
    given = ["load", "--bootstrap-server", local_loading.topics.bootstrap, "--topic", topic, "--to", f"{closed}/x"]
    (said,) = load(given, check=1)[1].splitlines()
    assert "Permission denied" in said


def test_a_directory_that_is_a_file(local_loading: Loading, tmp_path: Path) -> None:
    topic = local_loading.topics.create("file")
    local_loading.topics.produce(topic, numbers(3))
    (tmp_path / "file").touch()
    given = ["load", "--bootstrap-server", local_loading.topics.bootstrap, "--topic", topic, "--to"]
    (said,) = load([*given, str(tmp_path / "file")], check=1)[1].splitlines()
    assert "Not a directory" in said


@pytest.mark.peer
def test_hdfs_without_permission(local_loading: Loading, running_hdfs: Any) -> None:
    topic = local_loading.topics.create("hdfs-permission")
    local_loading.topics.produce(topic, numbers(3))
    given = ["load", "--bootstrap-server", local_loading.topics.bootstrap, "--topic", topic]
    done = subprocess.run(
        [sys.executable, "-m", "kafkalog.cli.main", *given, "--to", f"{running_hdfs.url}/closed", "--without-spark"],
        capture_output=True,
        text=True,
        env={**os.environ, "HADOOP_USER_NAME": "nobody"},
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    (said,) = done.stderr.splitlines()
    assert "Permission denied: user=nobody, access=WRITE" in said


@pytest.mark.usefixtures("processes")
def test_help_names_every_exit_code() -> None:
    out = run("load", "--help").stdout.decode()
    assert "exit codes: 0 done (or nothing new), 1 failed, 2 wrong usage, 3 another loader was first" in out


# ---------------------------------------------------------------------------------------------- with Spark


@pytest.fixture
def with_spark() -> None:
    require(java.missing())


@pytest.mark.spark
@pytest.mark.timeout(600)
@pytest.mark.usefixtures("with_spark")
def test_a_load_with_spark(loading: Loading, tmp_path: Path, run_spark: Callable[[str], tuple[int, int, int]]) -> None:
    """The default: one Spark task for each split, into a directory and into HDFS; Spark reads what it finds there."""
    topic = loading.topics.create("spark", 2)
    sent = loading.topics.produce(topic, numbers(100))
    given = ["load", "--bootstrap-server", loading.topics.bootstrap, "--topic", topic, "--to", loading.target]
    done = subprocess.run(
        [sys.executable, "-m", "kafkalog.cli.main", *given, "--master", "local[2]", "--min-splits", "4", "--json"],
        capture_output=True,
        text=True,
        timeout=SPARK_DEADLINE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    (loaded,) = json.loads(done.stdout)["loads"]
    assert loaded["files"] >= 4
    assert loading.check(topic) == expected(sent)
    wanted = len(sent), sum(each.offset for each in sent), sum(int(each.value or b"") for each in sent)
    assert run_spark(loading.files.url(loading.path(topic))) == wanted


@pytest.mark.exhaustive
@pytest.mark.spark
@pytest.mark.timeout(600)
@pytest.mark.usefixtures("with_spark")
def test_spark_submit(local_loading: Loading, tmp_path: Path) -> None:
    topic = local_loading.topics.create("submit", 2)
    sent = local_loading.topics.produce(topic, numbers(50))
    submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    given = ["--bootstrap-server", local_loading.topics.bootstrap, "--topic", topic, "--to", local_loading.target]
    settings = ["--master", "local[2]", "--conf", "spark.ui.enabled=false", "--conf", "spark.driver.host=127.0.0.1"]
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
    environment.pop("SPARK_HOME", None)

    def submitted(*more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(submit), *settings, application.__file__, *given, *more],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            env=environment,
            timeout=SPARK_DEADLINE_S,
            check=False,
        )

    done = submitted()
    assert done.returncode == 0, done.stderr[-3000:]
    assert f"{topic}: 50 rows" in done.stdout
    assert local_loading.check(topic) == expected(sent)
    # Told by the exit code, too.
    assert submitted("--until", "soon").returncode == 2


# ---------------------------------------------------------------------------------------------- parts


def test_the_progress_line() -> None:
    assert line("words", 1000, 250, 2_500_000, 2.0) == (
        "words [######..................]  25%  250 rows  2.5 MB  125 rows/s  6 s left"
    )
    assert line("words", 0, 0, 0, 0.0).endswith("100%  0 rows  0.0 MB  0 rows/s  -")
    assert line("words", 10, 20, 0, 1.0).startswith("words [########################] 100%")


def test_the_progress_bar_leaves_the_line_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spark_kafkalog.load.progress_bar.INTERVAL_S", 0.001)
    shown = io.StringIO()
    counts = iter(range(10**9))
    with ProgressBar("words", 100, lambda: (next(counts), 0), shown):
        while next(counts) < 50:
            pass
    assert shown.getvalue().endswith("\r\x1b[K")


def test_what_a_task_said_last() -> None:
    report = (
        "Job aborted due to stage failure: Task 0 in stage 0.0 failed 1 times:\n"
        "Traceback (most recent call last):\n  File x, line 1, in y\nValueError: first\n\nDuring handling:\n"
        "spark_kafkalog.data_loss.DataLossError: [KAFKA_DATA_LOSS.COULD_NOT_READ] offsets are gone\n\n\tat java.Lang"
    )
    assert task_error(report) == "DataLossError: [KAFKA_DATA_LOSS.COULD_NOT_READ] offsets are gone"
    assert task_error("Job 1 cancelled\nmore") == "Job 1 cancelled"
