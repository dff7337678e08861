"""A page of results: pure, from reports to Markdown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from conformance.model import Outcome, Suite, SuiteReport, TestResult, left_out

_HEAD = """# Conformance

What the test suites of Kafka's clients find, each run against one kafkalog broker and, in the same way, against one
broker of Apache Kafka. `conformance/suites` says for each suite where its tests come from, how they are run and what is
left out. This page is written by the command that runs them.

    python -m conformance                                     # every suite against kafkalog, each with a new broker
    python -m conformance --suites sarama --broker apache:3.9.2
    python -m conformance --suites '' --report docs/reference/conformance.md

Clients and tests are fetched when they are first needed: Python's by pip, Java's by Maven, Go's and Node.js's by their
own tools, and by git those that no registry holds. Where GitHub cannot be reached, `KAFKALOG_CONFORMANCE_SOURCES` names
a directory of clones: `aiokafka`, `confluent-kafka-python`, `kafkajs`. Flaky is what failed in one run and passed in
another (`--tries 2`, or `--again`).

"""

_TOLD = (Outcome.FAILED, Outcome.FLAKY)


def render(suites: Sequence[Suite], reports: Sequence[SuiteReport]) -> str:
    """The page; suites in their order, brokers in the order of their first report."""
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
    parts = [_HEAD + "\n".join(lines) + "\n"]
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
    failed = sorted({r.name for report in reports for r in report.results if r.outcome in _TOLD})
    if failed:
        brokers = list(outcomes)
        lines += [f"| failed | {' | '.join(brokers)} | what is behind it |", "|--|" + "--|" * (len(brokers) + 1)]
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
    return f"{result.outcome}: {_cell(result.why)}" if result.outcome in _TOLD else result.outcome.value


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ").replace("<", "&lt;")
