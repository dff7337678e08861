"""Run suites against a broker, keep the results, and write them as a page: `python -m conformance`.

The exit code is 1 if a test failed in any run. A further run (`--tries`, `--again`) tells flaky tests from those that
always fail; it turns no failure into a success.
"""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from conformance.model import Outcome, Suite, SuiteReport, TestResult, merged
from conformance.report import render
from conformance.suites import SUITES
from conformance.targets.brokers import broker
from peers import cache
from peers.brokers import kafka
from peers.cache import MissingPeerError, cache_root

FETCH_PATIENCE_S = 1800.0


def run_suite(suite: Suite, kind: str, work: Path, tries: int = 1) -> SuiteReport:
    """Run one suite against a new broker, and again while tests fail, up to `tries` times.

    Files and logs stay in `work`. A test that fails in one run and passes in another is flaky.
    """
    begun = time.monotonic()
    results: tuple[TestResult, ...] = ()
    try:
        for number in range(1, tries + 1):
            found = _run_once(suite, kind, work / str(number))
            results = merged(results, found) if results else found
            if not any(result.outcome is Outcome.FAILED for result in results):
                break
    except MissingPeerError as error:
        return SuiteReport(suite.name, suite.version, kind, missing=str(error).splitlines()[0])
    return SuiteReport(suite.name, suite.version, kind, results, seconds=round(time.monotonic() - begun, 1))


def _run_once(suite: Suite, kind: str, work: Path) -> tuple[TestResult, ...]:
    work.mkdir(parents=True)
    with broker(kind, work / "broker", suite) as target:
        rules = [rule for rule in suite.left_out if not rule.alone or len(target.brokers) == 1]
        return tuple(suite.run(target, work, rules))


def main() -> int:
    """Run the command line; return 1 if a test failed in any run."""
    parser = argparse.ArgumentParser(
        prog="python -m conformance", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--suites", help=f"comma-separated names; default: all of {', '.join(suite.name for suite in SUITES)}"
    )
    parser.add_argument(
        "--broker",
        default="kafkalog",
        help="kafkalog, kafkalog:N for a cluster of N brokers, or apache:VERSION such as apache:3.9.2",
    )
    parser.add_argument(
        "--tries", type=int, default=1, help="run a suite again while tests fail; those that then pass are flaky"
    )
    parser.add_argument(
        "--again", action="store_true", help="merge this run with the kept results, to find flaky tests"
    )
    parser.add_argument("--report", type=Path, help="write all kept results with one broker to this page")
    parser.add_argument("--cluster-report", type=Path, help="write all kept results with clusters to this page")
    parser.add_argument("--results", type=Path, default=cache_root() / "conformance" / "results")
    parser.add_argument("--work", type=Path, help="keep the suites' files and logs here")
    args = parser.parse_args()
    _extend_deadlines()
    # Brokers and suites end with this process, also when it is terminated.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    wanted = args.suites.split(",") if args.suites is not None else [suite.name for suite in SUITES]
    unknown = set(wanted) - {suite.name for suite in SUITES} - {""}
    if unknown:
        parser.error(f"no such suite: {', '.join(sorted(unknown))}")
    root = args.work or Path(tempfile.mkdtemp(prefix="conformance-"))
    reports = []
    for suite in SUITES:
        if suite.name not in wanted:
            continue
        report = run_suite(suite, args.broker, root / f"{suite.name}-{int(time.time())}", args.tries)
        kept = report.path(args.results)
        if args.again and kept.exists() and not report.missing:
            report = replace(report, results=merged(SuiteReport.load(kept).results, report.results))
        report.save(args.results)
        reports.append(report)
        summary = report.missing or ", ".join(f"{report.count(outcome)} {outcome}" for outcome in Outcome)
        print(f"{suite.name} {suite.version} @ {args.broker}: {summary} ({report.seconds:.0f} s)", flush=True)
        for result in report.failures:
            print(f"  {result.outcome} {result.name}: {result.why}", flush=True)
    kept_reports = [SuiteReport.load(path) for path in sorted(args.results.glob("*.json"))]
    kept_reports.sort(key=lambda report: (report.broker != "kafkalog", report.broker))
    for page, clusters in ((args.report, False), (args.cluster_report, True)):
        if page is not None:
            page.write_text(render(SUITES, kept_reports, clusters=clusters))
    if args.work is None:
        shutil.rmtree(root, ignore_errors=True)
    return exit_code(reports)


def exit_code(reports: Sequence[SuiteReport]) -> int:
    """Return 1 if a test failed in any run, even if it passed in another run."""
    return int(any(report.failures for report in reports))


def _extend_deadlines() -> None:
    cache.FETCH_DEADLINE_S = FETCH_PATIENCE_S
    # A tool that runs for seconds spends most of them on compilation.
    kafka.JVM_EXTRA.append("-XX:TieredStopAtLevel=1")


if __name__ == "__main__":
    sys.exit(main())
