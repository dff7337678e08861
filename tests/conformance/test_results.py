"""Tests of conformance: parsers of test runners' output, merged runs, the exit code and the page."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import cast

import pytest

from conformance import sources
from conformance.__main__ import exit_code
from conformance.formats import go_test, jest, junit
from conformance.model import (
    Explained,
    LeftOut,
    Outcome,
    Suite,
    SuiteReport,
    Target,
    TestResult,
    first_line,
    left_out,
    merged,
)
from conformance.report import render
from conformance.runners import java_program
from conformance.runners.checks import run_checks
from conformance.runners.pytest_suite import PLUGINS
from conformance.suites import SUITES
from conformance.targets.cluster import Cluster, Keeper

JUNIT = """<?xml version="1.0"?><testsuites><testsuite name="pytest">
<testcase classname="t.test_a.TestA" name="test_good" time="0.1"/>
<testcase classname="t.test_a" name="test_bad">
<failure message="AssertionError: 3 != 4&#10;more">trace</failure></testcase>
<testcase classname="t.test_a" name="test_skipped">
<skipped message="left out: needs TLS" type="pytest.skip"/></testcase>
<testcase classname="t.test_a" name="test_teardown"/>
<testcase classname="t.test_a" name="test_teardown"><error message="failed on teardown"/></testcase>
</testsuite></testsuites>"""


def test_junit() -> None:
    assert junit.parse(JUNIT) == [
        TestResult("t.test_a.TestA.test_good", Outcome.PASSED),
        TestResult("t.test_a.test_bad", Outcome.FAILED, "AssertionError: 3 != 4"),
        TestResult("t.test_a.test_skipped", Outcome.SKIPPED, "left out: needs TLS"),
        TestResult("t.test_a.test_teardown", Outcome.FAILED, "failed on teardown"),
    ]


@pytest.mark.usefixtures("processes")
def test_pytest_skips_what_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "test_x.py").write_text("def test_tls():\n    raise OSError\n\n\ndef test_plain():\n    pass\n")
    xml = tmp_path / "junit.xml"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "conformance_left_out", f"--junitxml={xml}", "test_x.py"]
    rules = json.dumps([{"pattern": "tls", "why": "needs TLS"}])
    env = {"PYTHONPATH": str(PLUGINS), "CONFORMANCE_LEFT_OUT": rules}
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout
    assert junit.parse(xml.read_text()) == [
        TestResult("test_x.test_tls", Outcome.SKIPPED, "left out: needs TLS"),
        TestResult("test_x.test_plain", Outcome.PASSED),
    ]


def event(action: str, test: str = "", output: str = "") -> str:
    told = {"Action": action, "Package": "p", "Test": test, "Output": output}
    return json.dumps({name: value for name, value in told.items() if value})


def test_go_tests() -> None:
    lines = [
        event("run", "TestGood"),
        event("pass", "TestGood"),
        event("run", "TestBad"),
        event("output", "TestBad", "=== RUN   TestBad\n"),
        event("output", "TestBad", "    a_test.go:7: got 3, want 4\n"),
        event("fail", "TestBad"),
        event("run", "TestParent"),
        event("run", "TestParent/child"),
        event("skip", "TestParent/child"),
        event("pass", "TestParent"),
        event("run", "TestNeverEnds"),
        event("fail"),
    ]
    assert go_test.parse(lines) == [
        TestResult("TestGood", Outcome.PASSED),
        TestResult("TestBad", Outcome.FAILED, "got 3, want 4"),
        TestResult("TestParent/child", Outcome.SKIPPED),
        TestResult("TestNeverEnds", Outcome.FAILED),
    ]


def test_go_that_does_not_compile() -> None:
    lines = ["# p\n", "./a.go:1:1: syntax error\n", event("fail")]
    assert go_test.parse(lines) == [TestResult("p", Outcome.FAILED, "# p")]


def test_go_names() -> None:
    lines = [event("output", output="TestA\n"), event("output", output="ok  p 0.1s\n"), event("pass")]
    assert go_test.listed(lines) == ["TestA"]


def test_jest(tmp_path: Path) -> None:
    def test(title: str, status: str, *messages: str) -> dict[str, object]:
        return {"ancestorTitles": ["Broker", "fetch"], "title": title, "status": status, "failureMessages": messages}

    tests = [
        test("good", "passed"),
        test("bad", "failed", "\x1b[31mError: 3\x1b[39m\n at x"),
        test("over TLS", "pending"),
    ]
    suites = [
        {"name": f"{tmp_path}/src/a.spec.js", "status": "failed", "message": "", "assertionResults": tests},
        {"name": f"{tmp_path}/b.spec.js", "status": "failed", "message": "Cannot find it", "assertionResults": []},
        {"name": f"{tmp_path}/c.spec.js", "status": "passed", "message": "", "assertionResults": [test("x", "todo")]},
    ]
    rules = [LeftOut(r"a\.spec\.js.*TLS", "needs TLS")]
    assert jest.parse(json.dumps({"testResults": suites}), tmp_path, rules) == [
        TestResult("src/a.spec.js.Broker fetch good", Outcome.PASSED),
        TestResult("src/a.spec.js.Broker fetch bad", Outcome.FAILED, "Error: 3"),
        TestResult("src/a.spec.js.Broker fetch over TLS", Outcome.SKIPPED, "left out: needs TLS"),
        TestResult("b.spec.js", Outcome.FAILED, "Cannot find it"),
        TestResult("c.spec.js.Broker fetch x", Outcome.SKIPPED, "skipped by its authors"),
    ]


def test_a_java_program_that_dies_has_failed() -> None:
    line = "groups: joins\tpassed\t"
    whole = [TestResult("clients 3.9.2: groups: joins", Outcome.PASSED)]
    assert java_program.judged([line, "end\t1"], 0, "3.9.2", "") == whole
    for lines, code in (([], 1), ([], 0), ([line], 1), ([line], 0), ([line, "end\t2"], 0), ([line, "end\t1"], 137)):
        results = java_program.judged(lines, code, "3.9.2", "Could not find or load main class")
        assert results[-1].outcome is Outcome.FAILED, (lines, code)


def test_java_program() -> None:
    lines = ["commits\tpassed\t", "[main] WARN something", "fences\tfailed\tjava.lang.AssertionError: 3"]
    assert java_program.parse(lines, "3.9.2") == [
        TestResult("clients 3.9.2: commits", Outcome.PASSED),
        TestResult("clients 3.9.2: fences", Outcome.FAILED, "java.lang.AssertionError: 3"),
    ]


def test_foreign_files_are_edited_or_refused(tmp_path: Path) -> None:
    path = tmp_path / "test.js"
    path.write_text("port: 9092,")
    sources.edit(path, {"9092": "1234"})
    assert path.read_text() == "port: 1234,"
    with pytest.raises(ValueError, match="has no '9092'"):
        sources.edit(path, {"9092": "1234"})


def test_what_fails_in_one_run_is_flaky() -> None:
    def run(**outcomes: str) -> list[TestResult]:
        outcome = {"p": Outcome.PASSED, "f": Outcome.FAILED, "s": Outcome.SKIPPED}
        return [TestResult(name, outcome[each], each) for name, each in outcomes.items()]

    found = merged(run(a="p", b="f", c="f", d="p", e="s", g="f"), run(a="p", b="f", c="p", d="f", e="s", h="p"))
    assert {result.name: result.outcome.value for result in found} == {
        "a": "passed", "b": "failed", "c": "flaky", "d": "flaky", "e": "skipped", "g": "failed", "h": "passed",
    }  # fmt: skip
    assert {result.why for result in found if result.outcome is Outcome.FLAKY} == {"f"}
    again = {result.name: result.outcome.value for result in merged(found, run(a="f", b="f", c="p", d="p", e="s"))}
    assert (again["a"], again["b"], again["c"]) == ("flaky", "failed", "flaky")


def test_a_flaky_test_fails_the_command() -> None:
    def report(*outcomes: Outcome) -> SuiteReport:
        results = tuple(TestResult(str(number), outcome) for number, outcome in enumerate(outcomes))
        return SuiteReport("one", "1.0", "kafkalog", results)

    passed, skipped = Outcome.PASSED, Outcome.SKIPPED
    assert exit_code([report(passed, skipped), report()]) == 0
    assert exit_code([report(passed), report(Outcome.FLAKY)]) == 1
    assert exit_code([report(passed, Outcome.FAILED), report(passed)]) == 1


def test_the_brokers_of_a_cluster() -> None:
    one, four = Target("kafkalog", "a:1"), Target("kafkalog:4", "a:1,b:2,c:3,d:4")
    assert (one.brokers, one.replicas) == (["a:1"], 1)
    assert (four.brokers, four.replicas, four.host, four.port) == (["a:1", "b:2", "c:3", "d:4"], 3, "a", 1)


class _Told:
    """A cluster that is told to stop and start brokers."""

    def __init__(self) -> None:
        self.acts: list[str] = []

    def stop(self, number: int) -> None:
        self.acts.append(f"stop {number}")

    def start(self, number: int) -> None:
        if number == 9:
            raise OSError
        self.acts.append(f"start {number}")


@pytest.mark.usefixtures("processes")
def test_a_suite_stops_brokers_as_if_they_were_containers(capfd: pytest.CaptureFixture[str]) -> None:
    told = _Told()
    with Keeper(cast(Cluster, told)) as keeper:

        def run(*words: str) -> int:
            env = {**os.environ, **keeper.environment}
            return subprocess.run(["docker", *words], env=env, check=False, timeout=60).returncode

        assert run("compose", "stop", "kafka-2") == 0
        assert run("compose", "start", "kafka-2") == 0
        assert told.acts == ["stop 2", "start 2"]
        assert run("compose", "logs", "kafka-2") != 0
        assert run("compose", "start", "kafka-9") != 0
    assert "no such command of docker" in capfd.readouterr().err


def good(target: Target) -> None:
    assert target.port == 9092


def bad(target: Target) -> None:
    raise ValueError(f"no such thing at {target.host}")


def unwanted(target: Target) -> None:
    raise AssertionError


def test_checks() -> None:
    target = Target("kafkalog", "127.0.0.1:9092")
    found = run_checks([good, bad, unwanted], target, [LeftOut("unwanted", "needs TLS")])
    assert [(result.name, result.outcome) for result in found] == [
        ("good", Outcome.PASSED),
        ("bad", Outcome.FAILED),
        ("unwanted", Outcome.SKIPPED),
    ]
    assert found[1].why.startswith("ValueError: no such thing at 127.0.0.1 (line ")
    assert found[2].why == "left out: needs TLS"


def test_reasons() -> None:
    assert left_out("test_sasl.py::test_x", [LeftOut("ssl", "TLS"), LeftOut("sasl", "SASL")]) == "SASL"
    assert left_out("test_x", [LeftOut("ssl", "TLS")]) == ""
    assert first_line("\n  Error at 0x7f3a2b\nmore") == "Error at …"


def test_reports_are_kept_and_rendered(tmp_path: Path) -> None:
    explained = [Explained("^b$", "expects Kafka 2.4")]
    suite = Suite("one", "1.0", "All of them.", lambda target, work, rules: [], explained=explained)
    results = (
        TestResult("a", Outcome.PASSED),
        TestResult("b", Outcome.FAILED, "x | y"),
        TestResult("c", Outcome.SKIPPED, "left out: needs TLS"),
    )
    ours = SuiteReport("one", "1.0", "kafkalog", results, seconds=2.5)
    theirs = SuiteReport("one", "1.0", "apache:3.9.2", (results[0], TestResult("b", Outcome.PASSED)))
    for report in (ours, theirs):
        report.save(tmp_path)
    assert {SuiteReport.load(path) for path in tmp_path.glob("*.json")} == {ours, theirs}
    page = render([suite], [ours, theirs])
    assert "| one | 1.0 | kafkalog | 1 | 1 | 0 | 1 |" in page
    assert "| `b` | failed: x \\| y | passed | expects Kafka 2.4 |" in page
    assert "| left out: needs TLS | 1 |" in page
    missing = SuiteReport("one", "1.0", "kafkalog", missing="missing because go is not installed")
    assert "could not run, missing because go is not installed" in render([suite], [missing])


def test_clusters_have_a_page_of_their_own() -> None:
    suite = Suite("one", "1.0", "All of them.", lambda target, work, rules: [])
    alone = SuiteReport("one", "1.0", "kafkalog", (TestResult("a", Outcome.PASSED),))
    three = SuiteReport("one", "1.0", "kafkalog:3", (TestResult("a", Outcome.FAILED, "x"),))
    page = render([suite], [alone, three])
    assert "| one | 1.0 | kafkalog | 1 | 0 | 0 | 0 |" in page
    assert "kafkalog:3 | 0" not in page
    page = render([suite], [alone, three], clusters=True)
    assert "| one | 1.0 | kafkalog:3 | 0 | 1 | 0 | 0 |" in page
    assert "| kafkalog |" not in page


def test_suites_have_names_of_their_own() -> None:
    names = [suite.name for suite in SUITES]
    assert len(set(names)) == len(names)
