"""Results of tests, whoever ran them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path


class Outcome(StrEnum):
    """How a test ended."""

    PASSED = "passed"
    FAILED = "failed"
    FLAKY = "flaky"
    """Failed in one run, passed in another."""
    SKIPPED = "skipped"


@dataclass(frozen=True)
class TestResult:
    """One test. ``why``: of a failure (flaky or not) its first line, of a skipped test the reason."""

    __test__ = False

    name: str
    outcome: Outcome
    why: str = ""


@dataclass(frozen=True)
class LeftOut:
    """Tests whose name the regular expression ``pattern`` finds are not run, because of ``why``."""

    pattern: str
    why: str


@dataclass(frozen=True)
class Explained:
    """Tests whose name ``pattern`` finds fail, with some broker or every one, because of ``why``."""

    pattern: str
    why: str


@dataclass(frozen=True)
class Target:
    """The broker that is asked."""

    kind: str
    bootstrap: str

    @property
    def host(self) -> str:
        return self.bootstrap.rpartition(":")[0]

    @property
    def port(self) -> int:
        return int(self.bootstrap.rpartition(":")[2])


Run = Callable[[Target, Path, Sequence[LeftOut]], Sequence[TestResult]]
"""Runs a suite's tests: (broker, a directory for its files, what to leave out) → results."""


@dataclass(frozen=True)
class Suite:
    """One client's tests. ``broker_settings`` are what its authors' broker has, too."""

    name: str
    version: str
    tests: str
    """Which tests, and where they come from: a sentence for the report."""
    run: Run
    left_out: Sequence[LeftOut] = ()
    broker_settings: Mapping[str, str] = field(default_factory=dict)
    explained: Sequence[Explained] = ()


@dataclass(frozen=True)
class SuiteReport:
    """What came of a suite with a broker; ``missing`` says why it could not be run at all."""

    suite: str
    version: str
    broker: str
    results: tuple[TestResult, ...] = ()
    missing: str = ""
    seconds: float = 0.0

    def count(self, outcome: Outcome) -> int:
        return sum(result.outcome is outcome for result in self.results)

    def save(self, directory: Path) -> None:
        """Keep the report as a file of ``directory``."""
        directory.mkdir(parents=True, exist_ok=True)
        self.path(directory).write_text(json.dumps(asdict(self), indent=1) + "\n")

    def path(self, directory: Path) -> Path:
        """Where `save` keeps it."""
        return directory / f"{self.suite}@{self.broker}.json"

    @classmethod
    def load(cls, path: Path) -> SuiteReport:
        """The inverse of `save`."""
        told = json.loads(path.read_text())
        results = tuple(TestResult(each["name"], Outcome(each["outcome"]), each["why"]) for each in told.pop("results"))
        return cls(results=results, **told)


def left_out(name: str, rules: Sequence[LeftOut | Explained]) -> str:
    """Why a test is left out, or fails, or nothing."""
    return next((rule.why for rule in rules if re.search(rule.pattern, name)), "")


def merged(first: Sequence[TestResult], again: Sequence[TestResult]) -> tuple[TestResult, ...]:
    """Of two runs of the same tests: what did not end in both as it should have is flaky, or failed if it never did."""
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
    """The first line that says something, without numbers that differ from run to run."""
    line = next((line.strip() for line in text.splitlines() if line.strip()), "")
    return _NUMBERS.sub("…", line)[:limit]
