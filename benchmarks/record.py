"""Run a benchmark, show what it prints, and save its results.

Run from the repository: `python -m benchmarks.record NAME [OPTION…]`, for example
`python -m benchmarks.record produce --runs 5`. Options are passed on to `benchmarks.NAME`, whose `main` returns
its results as values (`benchmarks.recording.findings`). They replace those of the same cases in
`benchmarks/results/NAME.json`; cases that this run left out stay as they are. After that
`python -m benchmarks.performance` makes docs/performance.md anew.

`--variant WORDS` keeps a run beside the usual one, under the words: for example
`python -m benchmarks.record --variant "both on tmpfs" produce --dir /dev/shm`.
"""

from __future__ import annotations

import argparse
import datetime
import importlib
import shlex
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import psutil  # type: ignore[import-untyped]

from benchmarks.peers import report
from benchmarks.peers.brokers import stop_when_told
from benchmarks.recording.findings import Finding
from benchmarks.recording.outcomes import RESULTS, Outcomes, Recording

MADE = ("benchmarks/results", "docs/performance.md", "docs/images/performance.svg")
"""The paths that a recording and the page's generator write: recordings before this one have changed no code."""
TOLD_FROM = 0.02
"""The share of a machine's time that other guests of its host must have taken, for the results to tell it."""


def commit() -> str | None:
    """Return the revision of the repository, or None outside of one.

    It ends with `+` where files differ from it that are not results.
    """
    shown = subprocess.run(["git", "describe", "--always"], capture_output=True, text=True, check=False)
    if shown.returncode:
        return None
    others = [f":(top,exclude){path}" for path in MADE]
    differs = subprocess.run(["git", "diff", "--quiet", "HEAD", "--", ":(top)", *others], check=False).returncode
    return shown.stdout.strip() + ("+" if differs else "")


def run(name: str, options: Sequence[str]) -> list[Finding]:
    """Run a benchmark in this process and return what it hands over."""
    found: list[Finding] | None = importlib.import_module(f"benchmarks.{name}").main(options)
    return found or []


def save(
    benchmark: str, findings: Sequence[Finding], directory: Path, recording: Recording, title: str | None = None
) -> Path:
    """Put findings in the place of the results of the same cases, and return the file's path."""
    path = directory / f"{benchmark}.json"
    before = Outcomes.load(path) if path.exists() else Outcomes(benchmark, benchmark, [])
    updated = before.updated([recording.of(each) for each in findings])
    return Outcomes(benchmark, title or before.title, updated.results).save(directory)


def arguments(words: Sequence[str] | None) -> tuple[argparse.Namespace, list[str]]:
    """Parse the command line: our own options, and those of the benchmark."""
    parser = argparse.ArgumentParser(description="Run a benchmark and save its results.", allow_abbrev=False)
    parser.add_argument("name", help="the module of benchmarks/, such as produce")
    parser.add_argument("--title", help="the heading on the page (default: that of the file that there is)")
    parser.add_argument("--variant", help="what sets this run apart; its results stay beside those of the usual run")
    parser.add_argument("--results", type=Path, default=RESULTS, help="directory of the files (default: %(default)s)")
    known, options = parser.parse_known_args(words)
    if find_spec(f"benchmarks.{known.name}") is None:
        parser.error(f"there is no benchmark {known.name!r} in benchmarks/")
    if "--quick" in options and known.variant is None and known.results == RESULTS:
        parser.error(
            "--quick is a look, not a measurement: save it elsewhere with --results, or name it with --variant"
        )
    return known, options


def main(words: Sequence[str] | None = None) -> int:
    """Run the benchmark and save what it found."""
    known, options = arguments(words)
    known.results.mkdir(parents=True, exist_ok=True)
    # What was loaded is what was measured, whatever happens to the files meanwhile.
    recording = Recording(
        date=datetime.date.today().isoformat(),
        machine=report.machine(),
        commit=commit(),
        options=shlex.join(options),
        variant=known.variant,
    )
    before = psutil.cpu_times()
    findings = run(known.name, options)
    if not findings:
        print(f"benchmarks.{known.name} hands over no results; nothing was saved", file=sys.stderr)
        return 1
    stolen = report.stolen(before, psutil.cpu_times())
    if stolen >= TOLD_FROM:
        recording = replace(recording, machine=f"{recording.machine}, {stolen:.0%} of its time taken by other guests")
    path = save(known.name, findings, known.results, recording, known.title)
    print(f"{len(findings)} results in {path}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    stop_when_told()
    sys.exit(main())
