"""Tests of the jobs' command lines: what is refused before Spark starts, and the text of errors."""

from __future__ import annotations

import json
import pickle
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence

import pytest

from spark_kafkalog.jobs import application, arguments, enrich, json_lines, lookup, page_views, rejected

SOURCE = ["--bootstrap-server", "localhost:1", "--topic", "a,b", "--checkpoint", "c"]
VIEWS = [*SOURCE, "--output", "o", "--rejected", "r"]
ENRICH = [*SOURCE, "--to", "t", "--rejected", "r", "--lookup", "l.csv", "--on", "status"]
JSON = [*ENRICH[:-2], "--format", "json", "--on", "$.a"]

Main = Callable[[Sequence[str] | None], int]


@pytest.mark.parametrize(
    ("main", "words", "message"),
    [
        (page_views.main, [*VIEWS, "--watermark", "soon"], "--watermark soon: expected an interval such as '1 hour'"),
        (page_views.main, [*VIEWS, "--trigger", "now"], "--trigger now: expected an interval .*, or available-now"),
        (page_views.main, [*VIEWS, "--methods", " ,"], "--methods names no method"),
        (page_views.main, [*VIEWS, "--rejected", "o/"], "--rejected and --output are the same directory"),
        (page_views.main, [*VIEWS, "--starting-offsets", "first"], "first"),
        (page_views.main, [*VIEWS, "--consumer-property", "x"], "--consumer-property: expected KEY=VALUE"),
        (page_views.main, [*VIEWS, "--consumer-property", "bootstrap.servers=x"], "--bootstrap-server"),
        (page_views.main, [*VIEWS, "--command-config", "/no/such"], "--command-config /no/such: No such file"),
        (page_views.main, [*VIEWS[:-2], "--rejected-topic", "b"], "it would be read for ever"),
        (page_views.main, [*VIEWS[:-2], "--rejected-topic", "c", "--producer-property", "acks=7"], "acks"),
        (enrich.main, [*ENRICH, "--to", "a"], "--to a is one of the topics that are read"),
        (enrich.main, [*ENRICH, "--on", "$.a"], r"--on \$.a: expected one of host, user"),
        (enrich.main, [*ENRICH, "--key", "ip"], "--key ip: expected one of host, user"),
        (enrich.main, [*ENRICH, "--as", "host"], "--as host: expected a name that no other member has"),
        (enrich.main, [*ENRICH, "--as", "source"], "--as source: expected a name"),
        (enrich.main, [*ENRICH, "--lookup", "x.txt"], "--lookup x.txt: .* say --lookup-format"),
        (enrich.main, [*JSON, "--on", "a"], r"--on a: expected a path such as '\$.address'"),
        (enrich.main, [*JSON, "--key", "$"], "expected a path"),
        (enrich.main, [*ENRICH, "--producer-property", "=x"], "--producer-property: expected KEY=VALUE"),
        (enrich.main, [*ENRICH, "--producer-property", "bootstrap.servers=x:1"], "the brokers of --bootstrap-server"),
    ],
)
def test_wrong_usage_is_told_in_one_line(
    main: Main, words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == application.USAGE
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert re.search(message, said), said


@pytest.mark.parametrize(
    ("main", "words"),
    [
        (page_views.main, VIEWS[:-2]),
        (page_views.main, [*VIEWS, "--rejected-topic", "x"]),
        (page_views.main, [*VIEWS, "--max-offsets-per-trigger", "0"]),
        (enrich.main, [*ENRICH, "--key", "host", "--keep-key"]),
        (enrich.main, [*ENRICH, "--match", "suffix"]),
        (enrich.main, []),
    ],
)
def test_options_that_argparse_refuses(main: Main, words: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == application.USAGE


def test_each_query_of_a_job_has_a_transactional_id_of_its_own() -> None:
    words = [*SOURCE, "--to", "t", "--lookup", "l.csv", "--on", "status"]
    given = ["--producer-property", "transactional.id=job", "--rejected-topic", "bad"]
    asked = enrich.arguments_of([*words, *given])
    assert arguments.sink_options(asked, asked.to)["kafka.transactional.id"] == "job"
    assert rejected.topic_options(asked)["kafka.transactional.id"] == "job-rejected"
    without = enrich.arguments_of([*words, *given[2:]])
    assert "kafka.transactional.id" not in rejected.topic_options(without)


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize("job", ["page_views", "enrich"])
def test_help_has_examples_and_exit_codes(job: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", f"spark_kafkalog.jobs.{job}", "--help"], capture_output=True, text=True, check=True
    )
    assert f"spark-submit {job}.py --bootstrap-server" in done.stdout
    assert arguments.EXIT_CODES in done.stdout


@pytest.mark.parametrize(
    ("text", "spark"),
    [
        ("1 hour", "1 hour"),
        ("30s", "30 seconds"),
        ("5 m", "5 minutes"),
        ("90 seconds", "90 seconds"),
        ("2h", "2 hours"),
    ],
)
def test_intervals(text: str, spark: str) -> None:
    assert arguments.interval("--x", text) == spark
    assert arguments.trigger(text) == {"processingTime": spark}


def test_options_of_source_and_sink() -> None:
    words = [*ENRICH, "--max-offsets-per-trigger", "9", "--no-fail-on-data-loss", "--consumer-property", "a=b"]
    parsed = enrich.arguments_of([*words, "--producer-property", "acks=1"])
    assert arguments.source_options(parsed) == {
        "kafka.bootstrap.servers": "localhost:1",
        "subscribe": "a,b",
        "startingOffsets": "earliest",
        "failOnDataLoss": "false",
        "maxOffsetsPerTrigger": "9",
        "kafka.a": "b",
    }
    assert arguments.sink_options(parsed, "t") == {
        "topic": "t",
        "kafka.acks": "1",
        "kafka.bootstrap.servers": "localhost:1",
    }


def test_the_key_is_the_host_of_a_line_and_an_object_keeps_its_own() -> None:
    assert enrich.check(enrich.arguments_of(ENRICH)).key == "host"
    assert enrich.check(enrich.arguments_of([*ENRICH, "--keep-key"])).key is None
    assert enrich.check(enrich.arguments_of(JSON)).key is None
    assert enrich.check(enrich.arguments_of([*JSON, "--key", "$.b"])).key == "$.b"


def test_paths_into_json() -> None:
    good = ["$.a", "$.a.b_c[0]", "$['user-agent'].x"]
    bad = ["", "$", "a", "$.", "$.a b", "$..a", "$[a]", "$.a'); --"]
    assert [path for path in good + bad if json_lines.PATH.fullmatch(path)] == good


def test_formats_of_lookups() -> None:
    assert lookup.format_of("hdfs://n/a.parquet/", None) == "parquet"
    assert lookup.format_of("a.csv", None) == "csv"
    assert lookup.format_of("a", "csv") == "csv"


def test_causes_of_spark_errors() -> None:
    quoted = (
        "[X] it failed:\nTraceback (most recent call last):\n  File\na.b.OneError: first\n\nOptionsError: last one\n"
    )
    assert application.cause(quoted) == "last one"
    hidden = quoted + "During handling:\nUnboundLocalError: cannot access local variable 'reader'\n SQLSTATE: 38000"
    assert application.cause(hidden) == "last one"
    assert application.cause("\n[PATH_NOT_FOUND] Path x\n at y") == "[PATH_NOT_FOUND] Path x"
    pickling = "_pickle.PicklingError: Could not serialize object: LedgerError: too old\n SQLSTATE: 38000"
    assert application.cause(pickling) == "too old"
    assert application.cause("") == "it failed without a word"
    stack = "a.E: m\n\tat b\nCaused by: c.F: n\n\tat d\nCaused by: e.G: o\n\tat f\n\t... 3 more\n"
    assert application.cause("[STREAM_FAILED] m\nmore", stack) == "[STREAM_FAILED] m (caused by e.G: o)"
    assert application.cause("[STREAM_FAILED] e.G: o\nmore", stack) == "[STREAM_FAILED] e.G: o"


def test_figures_count_each_batch_once() -> None:
    class Query:
        runId = "q"  # noqa: N815
        recentProgress: list[dict[str, object]] = []  # noqa: N815, RUF012

    def progress(batch: int, **observed: int) -> dict[str, object]:
        state = [{"numRowsDroppedByWatermark": 2}]
        return {"batchId": batch, "observedMetrics": {"m": observed} if observed else {}, "stateOperators": state}

    figures = application.Figures()
    query = Query()
    query.recentProgress = [progress(0, lines=5), progress(1)]
    figures.take(query)  # type: ignore[arg-type]
    query.recentProgress += [progress(1, lines=7)]
    figures.take(query)  # type: ignore[arg-type]
    assert dict(figures.sums) == {"lines": 12, application.LATE: 4}


def test_figures_keep_nothing_for_each_batch() -> None:
    class Query:
        runId = "q"  # noqa: N815
        recentProgress: list[dict[str, object]] = []  # noqa: N815, RUF012

    figures, query = application.Figures(), Query()
    sizes = []
    for batch in range(1000):
        query.recentProgress = [{"batchId": batch, "observedMetrics": {"m": {"lines": 1}}, "stateOperators": []}]
        figures.take(query)  # type: ignore[arg-type]
        sizes.append(len(pickle.dumps(figures)))
    assert figures.sums["lines"] == 1000
    assert sizes[-1] - sizes[0] < 100


def test_signals_ask_to_stop_and_handlers_come_back() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with application.stop_signals() as asked:
        assert not asked.is_set()
        signal.raise_signal(signal.SIGTERM)
        assert asked.wait(60)
    assert signal.getsignal(signal.SIGTERM) is before


def test_figures_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    application.report({"lines": 1}, "one line", as_json=True)
    application.report({"lines": 1}, "one line", as_json=False)
    first, second = capsys.readouterr().out.splitlines()
    assert json.loads(first) == {"lines": 1}
    assert second == "one line"
