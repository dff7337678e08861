"""Medians, ratios and markdown tables."""

from __future__ import annotations

import os
import platform
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import psutil  # type: ignore[import-untyped]

from benchmarks.recording.findings import OURS


def machine() -> str:
    """Describe what the figures were measured with, in one line."""
    model = platform.processor() or platform.machine()
    try:
        with open("/proc/cpuinfo") as file:
            model = next(line.split(":", 1)[1].strip() for line in file if line.startswith("model name"))
    except (OSError, StopIteration):
        pass
    memory = round(psutil.virtual_memory().total / (1 << 30))
    system = f"{platform.system()} {platform.release()}"
    return f"{os.cpu_count()} cores, {model}, {memory} GiB, {system}, Python {platform.python_version()}"


def stolen(before: Any, after: Any) -> float:
    """Return the share of the processors' work time that the host gave to other guests, between two moments.

    `before` and `after` are values of `psutil.cpu_times()`. Systems other than Linux do not tell: 0.
    """
    names = ("user", "nice", "system", "irq", "softirq", "steal")
    spent = {name: getattr(after, name, 0.0) - getattr(before, name, 0.0) for name in names}
    return spent["steal"] / (sum(spent.values()) or 1.0)


def table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Make a Markdown table that reads as text, too: columns are padded, all but the first right-aligned."""
    cells = [[str(cell) for cell in row] for row in (header, *rows)]
    widths = [max(len(row[at]) for row in cells) for at in range(len(header))]
    lines = [
        "| "
        + " | ".join([row[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(row[1:], widths[1:], strict=True))])
        + " |"
        for row in cells
    ]
    rule = "|" + "|".join(["-" * (widths[0] + 2), *("-" * (width + 1) + ":" for width in widths[1:])]) + "|"
    return "\n".join([lines[0], rule, *lines[1:]])


def median(values: Sequence[float]) -> float:
    """Return the median; of nothing, not a number."""
    return statistics.median(values) if values else float("nan")


def compare(case: str, results: Mapping[str, Sequence[float]], form: str = ",.0f") -> list[str]:
    """Make a row: the case, each broker's median, and ours divided by each peer's."""
    medians = {name: median(values) for name, values in results.items()}
    row = [case, *(format(value, form) for value in medians.values())]
    if OURS in medians:
        row += [f"{medians[OURS] / value:.2f}" for name, value in medians.items() if name != OURS]
    return row


def by_field(
    results: Mapping[Any, Mapping[str, Sequence[object]]], names: Sequence[str], figures: Iterable[tuple[str, str, str]]
) -> str:
    """Make a table of every figure: a row for each case, with the medians of each broker.

    Args:
        results: What was measured, by case and name of the broker.
        names: The brokers, in the order of the columns.
        figures: Of each figure its unit, the attribute of a result, and the format of numbers.
    """
    tables = []
    for what, field, form in figures:
        rows = [
            compare(str(case), {name: [getattr(each, field) for each in found[name]] for name in names}, form)
            for case, found in results.items()
        ]
        tables.append(table(header(what, names), rows))
    return "\n\n".join(tables)


def header(what: str, names: Sequence[str]) -> list[str]:
    """Make the header of a table of `compare` rows."""
    ratios = [f"÷ {name}" for name in names if name != OURS] if OURS in names else []
    return [what, *names, *ratios]
