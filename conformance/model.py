"""Suites, and the results of their tests."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path


class Outcome(StrEnum):
    """The outcomes of a test."""

    PASSED = "passed"
    FAILED = "failed"
    FLAKY = "flaky"
    """Failed in one run, passed in another."""
    SKIPPED = "skipped"


@dataclass(frozen=True)
class TestResult:
    """The result of one test. `why` is the first line of a failure (flaky or not), or the reason for a skip."""

    __test__ = False

    name: str
    outcome: Outcome
    why: str = ""


@dataclass(frozen=True)
class LeftOut:
    """A rule: tests whose names match the regular expression `pattern` are not run; `why` is the reason.

    A rule that is `alone` holds with one broker, and not with a cluster.
    """

    pattern: str
    why: str
    alone: bool = False


@dataclass(frozen=True)
class Explained:
    """An explanation: tests whose names match `pattern` fail with some brokers or all; `why` is the cause."""

    pattern: str
    why: str


@dataclass(frozen=True)
class Target:
    """The broker under test, or a cluster of them.

    `bootstrap` has host:port of each broker, separated by commas. `environment` has variables for the suite's program,
    with which it can stop and start brokers.
    """

    kind: str
    bootstrap: str
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def brokers(self) -> Sequence[str]:
        """Return host:port of each broker."""
        return self.bootstrap.split(",")

    @property
    def replicas(self) -> int:
        """Return how many replicas a topic of a suite has: three, or as many as there are brokers."""
        return min(len(self.brokers), 3)

    @property
    def host(self) -> str:
        """Return the host of the first broker."""
        return self.brokers[0].rpartition(":")[0]

    @property
    def port(self) -> int:
        """Return the port of the first broker."""
        return int(self.brokers[0].rpartition(":")[2])


Run = Callable[[Target, Path, Sequence[LeftOut]], Sequence[TestResult]]
"""Runs a suite's tests: (broker, a directory for files, rules of what to leave out) → results."""


@dataclass(frozen=True)
class Suite:
    """The tests of one client.

    `broker_settings` are settings that its authors' broker has, too; a cluster has those of `cluster_settings` as well.
    `advertised` are the addresses that brokers advertise, in their order, if these are not their own.
    """

    name: str
    version: str
    tests: str
    """A sentence for the report: which tests, and where they come from."""
    run: Run
    left_out: Sequence[LeftOut] = ()
    broker_settings: Mapping[str, str] = field(default_factory=dict)
    cluster_settings: Mapping[str, str] = field(default_factory=dict)
    advertised: Sequence[str] = ()
    explained: Sequence[Explained] = ()


@dataclass(frozen=True)
class SuiteReport:
    """The results of a suite with one broker; `missing` is the reason if it could not run at all."""

    suite: str
    version: str
    broker: str
    results: tuple[TestResult, ...] = ()
    missing: str = ""
    seconds: float = 0.0

    def count(self, outcome: Outcome) -> int:
        return sum(result.outcome is outcome for result in self.results)

    @property
    def failures(self) -> list[TestResult]:
        """The tests that failed in at least one run: the failed and the flaky ones."""
        return [result for result in self.results if result.outcome in (Outcome.FAILED, Outcome.FLAKY)]

    def save(self, directory: Path) -> None:
        """Keep the report as a file of `directory`."""
        directory.mkdir(parents=True, exist_ok=True)
        self.path(directory).write_text(json.dumps(asdict(self), indent=1) + "\n")

    def path(self, directory: Path) -> Path:
        """Return the file that `save` writes."""
        return directory / f"{self.suite}@{self.broker}.json"

    @classmethod
    def load(cls, path: Path) -> SuiteReport:
        """Read a report that `save` wrote."""
        fields = json.loads(path.read_text())
        saved = fields.pop("results")
        results = tuple(TestResult(each["name"], Outcome(each["outcome"]), each["why"]) for each in saved)
        return cls(results=results, **fields)


def left_out(name: str, rules: Sequence[LeftOut | Explained]) -> str:
    """Return the reason of the first rule that matches the test's name, or an empty text."""
    return next((rule.why for rule in rules if re.search(rule.pattern, name)), "")


def merged(first: Sequence[TestResult], again: Sequence[TestResult]) -> tuple[TestResult, ...]:
    """Merge two runs; mark tests whose outcome differs as flaky."""
    second = {result.name: result for result in again}
    found = [_worse(result, second.pop(result.name, result)) for result in first]
    return (*found, *second.values())


def _worse(one: TestResult, other: TestResult) -> TestResult:
    bad = (Outcome.FAILED, Outcome.FLAKY)
    if one.outcome is other.outcome or (one.outcome not in bad and other.outcome not in bad):
        return one
    return TestResult(one.name, Outcome.FLAKY, one.why if one.outcome in bad else other.why)


_NUMBERS = re.compile(r"\b0x[0-9a-f]+\b|\b\d{5,}\b|[0-9a-f]{8}-[0-9a-f-]{27}")


def first_line(text: str, limit: int = 200) -> str:
    """Return the first line that is not blank, without numbers that differ from run to run."""
    line = next((line.strip() for line in text.splitlines() if line.strip()), "")
    return _NUMBERS.sub("…", line)[:limit]
