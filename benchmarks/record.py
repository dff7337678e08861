"""Run a benchmark, show what it prints, and save its tables as results.

Run from the repository: ``python -m benchmarks.record NAME [OPTION…]``, for example
``python -m benchmarks.record produce --runs 5``. Options are passed on to ``benchmarks.NAME``. The results replace
those of ``benchmarks/results/NAME.json``. After that ``python -m benchmarks.performance`` makes docs/performance.md
anew.

Each row of a Markdown table that the benchmark prints becomes results, one for each peer in the table. Ratios are
computed from the printed figures. A table without a column of kafkalog's gives one result for each of its figures.
"""

from __future__ import annotations

import argparse
import ast
import datetime
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.outcomes import HIGHER, LOWER, RESULTS, Outcome, Outcomes
from benchmarks.peers import report

OURS = ("kafkalog", "kafkalog from Kafka", "kafkalog to Kafka", "kafkalog, no byte limit", "load", "load from Kafka",
        "read_arrow", "poll", "transactional")  # fmt: skip
"""Columns with figures of kafkalog's. The benchmarks name their contestants so."""
NOT_PEERS = ("more", "÷", " : ")
"""What the names of derived columns contain."""
RATES = ("/s", "a second")


@dataclass(frozen=True)
class Table:
    """A table: its header and rows of as many cells."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]


def tables(text: str) -> Iterator[Table]:
    """Yield the Markdown tables of a benchmark's output."""
    lines = [
        [cell.strip() for cell in line.strip("| ").split("|")] if line.startswith("|") else []
        for line in [*text.splitlines(), ""]
    ]
    found: list[list[str]] = []
    for cells in lines:
        if cells:
            found.append(cells)
            continue
        if len(found) > 2:
            rule = {len(found[0]), len(found[0]) - 1}
            yield Table(found[0], [row for row in found[2:] if len(row) in rule])
        found = []


def number(cell: str) -> float | None:
    """Return the number in a cell, or None where there is none."""
    try:
        return float(cell.replace(",", ""))
    except ValueError:
        return None


def outcomes(table: Table, *, date: str, machine: str, commit: str, runs: int | None) -> Iterator[Outcome]:
    """Yield the results that a table holds."""
    what = table.header[0]
    ours = [at for at, name in enumerate(table.header) if name in OURS]
    peers = [
        at
        for at, name in enumerate(table.header)
        if at and at not in ours and not any(word in name for word in NOT_PEERS)
    ]
    for row in table.rows:
        words = ", ".join(cell for cell in row if cell and number(cell) is None)
        better = HIGHER if any(rate in f"{what} {words}" for rate in RATES) else LOWER
        for mine in ours or peers:
            figure = number(row[mine])
            if figure is None:
                continue
            name = words if ours == [mine] else f"{words}, {table.header[mine]}".strip(", ")
            rivals: list[int | None] = [at for at in peers if ours and number(row[at]) is not None]
            for at in rivals or [None]:
                peer = None if at is None else number(row[at])
                yield Outcome(
                    name=name,
                    unit=what,
                    ours=figure,
                    peer=peer,
                    peer_name=None if at is None else table.header[at],
                    ratio=round(figure / peer, 3) if peer else None,
                    better=better,
                    runs=runs,
                    date=date,
                    machine=machine,
                    commit=commit,
                )


def first_line(name: str) -> str:
    """Return the first line of a benchmark's docstring, without the full stop."""
    tree = ast.parse((Path(__file__).parent / f"{name}.py").read_text())
    return (ast.get_docstring(tree) or name).splitlines()[0].rstrip(".")


def commit() -> str:
    """Return the revision of the repository; it ends with ``+`` where files differ from it."""
    shown = subprocess.run(["git", "describe", "--always", "--dirty=+"], capture_output=True, text=True, check=True)
    return shown.stdout.strip()


def run(name: str, options: Sequence[str]) -> str:
    """Run a benchmark, print its output as it comes, and return it. CalledProcessError where it fails."""
    command = [sys.executable, "-m", f"benchmarks.{name}", *options]
    shown = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            print(line, end="", flush=True)
            shown.append(line)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    return "".join(shown)


def main() -> int:
    parser = argparse.ArgumentParser(description="Run a benchmark and save its results.")
    parser.add_argument("name", help="the module of benchmarks/, such as produce")
    parser.add_argument(
        "--title",
        help="the heading on the page (default: that of the file to be replaced, or the first line of the module)",
    )
    known, options = parser.parse_known_args()
    path = RESULTS / f"{known.name}.json"
    title = known.title or (Outcomes.load(path).title if path.exists() else first_line(known.name))
    text = run(known.name, options)
    runs = int(options[options.index("--runs") + 1]) if "--runs" in options else None
    date = datetime.date.today().isoformat()
    revision, machine = commit(), report.machine()
    found = [
        each
        for table in tables(text)
        for each in outcomes(table, date=date, machine=machine, commit=revision, runs=runs)
    ]
    if not found:
        print(f"benchmarks.{known.name} printed no table; {path} stays as it is", file=sys.stderr)
        return 1
    print(f"{len(found)} results in {Outcomes(known.name, title, found).save()}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
