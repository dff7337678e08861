"""The results of benchmarks as files: `benchmarks/results/NAME.json`, one for each benchmark.

A file is an object with `benchmark` (the module's name), `title` and `results`, a list of objects with the fields
of `Outcome`. `benchmarks.record` writes the files and `benchmarks.performance` makes the page of them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from benchmarks.recording.findings import Finding

RESULTS = Path(__file__).parents[1] / "results"


@dataclass(frozen=True, kw_only=True)
class Outcome(Finding):
    """A finding with when, where and how it was measured; `runs` is None where it is not known.

    Attributes:
        date: the day of the measurement.
        machine: cores, processor, memory, operating system and Python.
        commit: the revision of kafkalog that was measured, or None where it was not recorded.
        options: the options that the benchmark was given, as on a command line; None where they are not known.
        variant: what sets the run apart from the benchmark's usual one, or None for that one.
    """

    date: str
    machine: str
    commit: str | None = None
    options: str | None = None
    variant: str | None = None

    @property
    def case(self) -> tuple[str, str | None, str | None]:
        """The values that tell this result from the others of its benchmark."""
        return self.name, self.variant, self.peer_name


@dataclass(frozen=True, kw_only=True)
class Recording:
    """The date, machine and setup of the run that measured some findings; the fields are those of `Outcome`."""

    date: str
    machine: str
    commit: str | None = None
    options: str | None = None
    variant: str | None = None

    def of(self, finding: Finding) -> Outcome:
        """Make the result of a finding."""
        return Outcome(**asdict(finding), **asdict(self))


@dataclass(frozen=True)
class Outcomes:
    """All results of one benchmark."""

    benchmark: str
    title: str
    results: Sequence[Outcome]

    def updated(self, found: Sequence[Outcome]) -> Outcomes:
        """Put results in the place of those of the same cases, new cases beside others of the name or at the end."""
        results = list(self.results)
        for each in found:
            there = [at for at, old in enumerate(results) if old.case == each.case]
            related = [at for at, old in enumerate(results) if (old.name, old.variant) == (each.name, each.variant)]
            if there:
                results[there[0]] = each
            else:
                results.insert(related[-1] + 1 if related else len(results), each)
        return replace(self, results=results)

    def save(self, directory: Path = RESULTS) -> Path:
        """Write the file, over the one that is there, and return its path."""
        path = directory / f"{self.benchmark}.json"
        path.write_text(json.dumps(asdict(self), indent=1, ensure_ascii=False) + "\n")
        return path

    @classmethod
    def load(cls, path: Path) -> Outcomes:
        """Read a file.

        Raises:
            TypeError: A field is unknown or missing.
        """
        found = json.loads(path.read_text())
        return cls(found["benchmark"], found["title"], [Outcome(**each) for each in found["results"]])


def load_all(directory: Path = RESULTS) -> Iterator[Outcomes]:
    """Yield what the files of a directory hold, sorted by name."""
    for path in sorted(directory.glob("*.json")):
        yield Outcomes.load(path)
