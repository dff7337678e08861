"""Render reports as a page of Markdown. This module does no I/O."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from conformance.model import Outcome, Suite, SuiteReport, TestResult, left_out

_HEAD = """# Conformance

This page has the results of the test suites of Kafka's clients. Each suite runs against one kafkalog broker and, in
the same way, against one broker of Apache Kafka. [Another page](conformance-cluster.md) has the results against three
brokers. `conformance/suites` says where each suite's tests come from, how they are run and which are left out. The
command that runs the suites also writes this page.

    python -m conformance                                     # every suite against kafkalog, each with a new broker
    python -m conformance --suites sarama --broker apache:3.9.2
    python -m conformance --suites '' --report docs/reference/conformance.md

Clients and tests are fetched when they are first needed: for Python by pip, for Java by Maven, for Go and Node.js by
their own tools. Tests that no registry has are cloned by git. Without access to GitHub, set
`KAFKALOG_CONFORMANCE_SOURCES` to a directory of clones: `aiokafka`, `confluent-kafka-python`, `kafkajs`.

Tests that need a broker with TLS, SASL or an authorizer are left out here. Our own clients are tested with a secured
Apache Kafka 3.9 and 4.3 by `tests/foreign/secured`, `tests/kafkalog/client/security` and
`tests/spark_kafkalog/secured/test_secured_kafka.py`.

A flaky test failed in one run and passed in another (`--tries 2`, or `--again`). The command exits with 1 if a test
failed in any run, so a flaky test counts as a failure.

"""

_CLUSTER_HEAD = """# Conformance of a cluster

This page has the results of test suites of Kafka's clients against three brokers of kafkalog, which are members of a
cluster over ZooKeeper. Topics of the tests and the internal topics have three replicas. [Conformance](conformance.md)
tells of the suites, of flaky tests, and of the results with one broker.

    python -m conformance --suites franz-go,sarama,kafka-python --broker kafkalog:3
    python -m conformance --suites '' --cluster-report docs/reference/conformance-cluster.md

Some of sarama's tests stop and start a broker by `docker compose`. Here a command of that name stops and starts the
process of the broker. The connections of sarama's tests go through Toxiproxy.

"""

_BAD = (Outcome.FAILED, Outcome.FLAKY)


def is_of_cluster(report: SuiteReport) -> bool:
    """Return whether a report is of a cluster, `kafkalog:N`."""
    return report.broker.startswith("kafkalog:")


def render(suites: Sequence[Suite], reports: Sequence[SuiteReport], *, clusters: bool = False) -> str:
    """Return the page: suites in their order, brokers in the order of their first report.

    Args:
        clusters: whether it is the page of clusters. Each page has the reports that belong to it.
    """
    reports = [report for report in reports if is_of_cluster(report) is clusters]
    brokers = list(dict.fromkeys(report.broker for report in reports))
    by_key = {(report.suite, report.broker): report for report in reports}
    lines = [f"| suite | version | broker | {' | '.join(Outcome)} |", "|--|--|--|" + "--:|" * len(Outcome)]
    for suite in suites:
        for broker in brokers:
            report = by_key.get((suite.name, broker))
            if report is None:
                continue
            counts = [str(report.count(outcome)) for outcome in Outcome]
            if report.missing:
                counts = ["could not run", "", "", ""]
            lines.append(f"| {suite.name} | {report.version} | {broker} | {' | '.join(counts)} |")
    parts = [(_CLUSTER_HEAD if clusters else _HEAD) + "\n".join(lines) + "\n"]
    for suite in suites:
        mine = [report for broker in brokers if (report := by_key.get((suite.name, broker)))]
        if mine:
            parts.append(_section(suite, mine))
    return "\n".join(parts)


def _section(suite: Suite, reports: Sequence[SuiteReport]) -> str:
    lines = [f"## {suite.name} {reports[0].version}", "", suite.tests, ""]
    missing = [f"- {report.broker}: could not run, {_cell(report.missing)}" for report in reports if report.missing]
    lines += [*missing, ""] if missing else []
    outcomes = {report.broker: {result.name: result for result in report.results} for report in reports}
    failed = sorted({r.name for report in reports for r in report.failures})
    if failed:
        brokers = list(outcomes)
        lines += [f"| failed | {' | '.join(brokers)} | cause |", "|--|" + "--|" * (len(brokers) + 1)]
        for name in failed:
            cells = [_outcome(outcomes[broker].get(name)) for broker in brokers]
            lines.append(f"| `{name}` | {' | '.join(cells)} | {_cell(left_out(name, suite.explained))} |")
        lines.append("")
    skipped = Counter(r.why for report in reports for r in _unique_skips(report))
    if skipped:
        lines += ["| not run | tests |", "|--|--:|"]
        counts = {why: max(sum(r.why == why for r in _unique_skips(report)) for report in reports) for why in skipped}
        lines += [f"| {_cell(why)} | {count} |" for why, count in sorted(counts.items(), key=lambda item: -item[1])]
        lines.append("")
    return "\n".join(lines)


def _unique_skips(report: SuiteReport) -> list[TestResult]:
    return [result for result in report.results if result.outcome is Outcome.SKIPPED]


def _outcome(result: TestResult | None) -> str:
    if result is None:
        return "–"
    return f"{result.outcome}: {_cell(result.why)}" if result.outcome in _BAD else result.outcome.value


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ").replace("<", "&lt;")
