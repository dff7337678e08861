"""Make docs/performance.md and the chart of the README from the result files.

Run from the repository: `python -m benchmarks.performance`. It measures nothing. The results come from
`benchmarks/results/*.json` (`benchmarks.recording.outcomes`), the choice of bars from `benchmarks/chart.json`.
"""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from benchmarks.recording.findings import LOWER, Figure
from benchmarks.recording.outcomes import Outcome, Outcomes, load_all

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "performance.md"
CHART = ROOT / "docs" / "images" / "performance.svg"
BARS = ROOT / "benchmarks" / "chart.json"

_HEAD = """# Performance

Made by `python -m benchmarks.performance` from `benchmarks/results/`. Each section names the command that measures it,
run from the repository in the environment of `make install`. `python -m benchmarks.record NAME` runs `benchmarks.NAME`
and saves its results. They replace those of the same cases below; the others stay.

Figures are medians of runs that take turns with the peer on the same machine: Apache Kafka 4.3.1 with its own tools,
defaults and heap, Spark's own connector, or another client. Broker, clients and Spark share two cores. Throughput with
several JVMs on two cores swings by a factor of two from run to run; CPU for a GB swings far less. Take the ratios from
here, and the rates from your own machine. The machines are virtual; where other guests of the host took 2 % or more of
the time of a machine's processors, its line says so.

The **ratio** is kafkalog's figure divided by the peer's. The sign tells which side is better: ▲ kafkalog, ▼ the peer,
＝ neither, within 5 %.

Rates of Spark are bounded by PySpark's data source interface, whose JVM side copies row by row: 60 % of the CPU of a
batch read is spent there, and 20 % in fetching and decoding. Tasks in Python cost a small micro-batch more than its
records do, so the planner of a query reads small ones itself
([small micro-batches](reference/spark.md#small-micro-batches)). Plots: [partitions and
codecs](reference/spark.md#how-fast), [scale](explanation/scale.md).
"""
_CHOSEN = """## In short

![how many times better than the peer](images/performance.svg)

| case | kafkalog | peer | ratio | all cases |
|--|--:|--:|--:|--|
"""
_LONGEST = 30
"""A table with more rows than this is folded."""
_ORDER = (
    *("produce", "consume", "secured", "producer_client", "consumer"),
    *("spark_read", "spark_latency", "spark_write", "spark_once"),
    *(
        "load",
        "spark_values",
        "cluster",
        "cluster_growth",
        "mirror",
        "startup",
        "cold_executors",
        "scale",
        "compaction",
        "cold_reads",
        "stalls",
        "refusals",
    ),
    *("records", "protocol"),
)
"""The sections in a reader's order; others follow."""


@dataclass(frozen=True)
class Bar:
    """A bar of the chart: its label, the result, and how many times better kafkalog is."""

    label: str
    benchmark: str
    outcome: Outcome
    times: float


# ---------------------------------------------------------------------------------------------- the page


def shown(figure: Figure, unit: str = "") -> str:
    """Show a figure with three digits that count, and K or M; two figures as a range."""
    if figure is None:
        return "–"
    if isinstance(figure, list):
        return "–".join(shown(each) for each in figure) + (f" {unit}" if unit else "")
    if unit == "ms" and figure >= 1e4:
        return shown(figure / 1e3, "s")
    for factor, letter in ((1e6, " M"), (1e3, " K"), (1.0, "")):
        if abs(figure) >= factor or factor == 1.0:
            # Numbers up to 9,999 are easier to read as they are.
            scaled, letter = (
                (figure, "") if 1e3 <= abs(figure) < 1e4 and unit != "records/s" else (figure / factor, letter)
            )
            text = f"{scaled:,.0f}" if abs(scaled) >= 100 else f"{scaled:.3g}"
            return f"{text}{letter}{f' {unit}' if unit else ''}"
    raise AssertionError


def advantage(outcome: Outcome) -> float | None:
    """Return how many times better kafkalog is, below 1 where the peer is; of a range, the worse end."""
    ratio = outcome.ratio
    if ratio is None:
        return None
    if outcome.better == LOWER:
        return 1 / (max(ratio) if isinstance(ratio, list) else ratio)
    return min(ratio) if isinstance(ratio, list) else ratio


def _sign(outcome: Outcome) -> str:
    times = advantage(outcome)
    if times is None:
        return ""
    return " ＝" if abs(times - 1) <= 0.0501 else " ▲" if times > 1 else " ▼"


def _run(outcome: Outcome) -> str:
    """Tell when and with what a result was measured."""
    runs = None if outcome.runs is None else f"{outcome.runs} run{'s' * (outcome.runs != 1)}"
    words = [
        outcome.date,
        *(each for each in (runs, outcome.machine) if each),
        *(f"`{each}`" for each in (outcome.commit, outcome.options) if each),
    ]
    return "; ".join(words)


def _row(outcome: Outcome, *more: str, label: str | None = None) -> str:
    ratio = "–" if outcome.ratio is None else shown(outcome.ratio) + _sign(outcome)
    cells = [
        label or (outcome.name if outcome.variant is None else f"{outcome.name}, {outcome.variant}"),
        shown(outcome.ours, outcome.unit),
        "–" if outcome.peer is None else f"{shown(outcome.peer, outcome.unit)} ({outcome.peer_name})",
        ratio,
        *more,
    ]
    return "| " + " | ".join(cells) + " |"


def _anchor(heading: str) -> str:
    """Make the fragment that GitHub gives a heading."""
    return "#" + re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def in_short(everything: Sequence[Outcomes], chosen: Sequence[Bar]) -> str:
    """Make the table of the chart's cases, each with a link to the section that has all cases of its kind."""
    titles = {found.benchmark: found.title for found in everything}
    rows = [
        _row(bar.outcome, f"[{titles[bar.benchmark]}]({_anchor(titles[bar.benchmark])})", label=bar.label)
        for bar in chosen
    ]
    return _CHOSEN + "\n".join(rows) + "\n"


def section(found: Outcomes) -> str:
    """Make the section of one benchmark: a table, and the run that it is of; several runs are numbered."""
    runs = list(dict.fromkeys(_run(outcome) for outcome in found.results))
    numbers = {run: f"{at}" for at, run in enumerate(runs, 1)} if len(runs) > 1 else {}
    lines = [f"## {found.title}", "", f"`python -m benchmarks.{found.benchmark}`", ""]
    if numbers:
        lines += ["| case | kafkalog | peer | ratio | run |", "|--|--:|--:|--:|--:|"]
    else:
        lines += ["| case | kafkalog | peer | ratio |", "|--|--:|--:|--:|"]
    lines += [_row(outcome, *([numbers[_run(outcome)]] if numbers else [])) for outcome in found.results]
    if len(found.results) > _LONGEST:
        lines[4:] = ["<details>", f"<summary>{len(found.results)} cases</summary>", "", *lines[4:], "", "</details>"]
    lines += ["", *(f"{number}. {run}" for run, number in numbers.items())] if numbers else ["", *runs]
    return "\n".join(lines) + "\n"


def render(everything: Sequence[Outcomes], chosen: Sequence[Bar]) -> str:
    """Make the page as Markdown; `chosen` are the chart's bars."""
    rank = {name: at for at, name in enumerate(_ORDER)}
    ordered = sorted(everything, key=lambda each: (rank.get(each.benchmark, len(rank)), each.benchmark))
    return "\n".join([_HEAD, in_short(ordered, chosen), *(section(each) for each in ordered)])


# ---------------------------------------------------------------------------------------------- the chart

_WIDTH, _LABELS, _RIGHT, _TOP, _STEP = 900, 370, 60, 64, 26
_TICKS = (0.5, 1, 2, 4, 8, 16)
_BETTER, _WORSE = "#2f7d4f", "#b5482f"


def bars(everything: Sequence[Outcomes], chosen: Path = BARS) -> list[Bar]:
    """Make the bars that the file chooses, in its order; warn of those that have no result with a ratio."""
    made = []
    for choice in json.loads(chosen.read_text()):
        found = chosen_outcome(everything, choice["benchmark"], choice["case"])
        times = None if found is None else advantage(found)
        if found is None or times is None:
            told = f"{choice['case']!r} of {choice['benchmark']} has no ratio in benchmarks/results/"
            print(f"warning: the chart has no bar {choice['label']!r}: {told}", file=sys.stderr)
            continue
        made.append(Bar(choice["label"], choice["benchmark"], found, times))
    return made


def chosen_outcome(everything: Sequence[Outcomes], benchmark: str, case: str) -> Outcome | None:
    """Find a case's result of the usual run; of several peers, the first with a ratio."""
    return next(
        (
            each
            for found in everything
            if found.benchmark == benchmark
            for each in found.results
            if (each.name, each.variant) == (case, None) and each.ratio is not None
        ),
        None,
    )


def draw(drawn: Sequence[Bar]) -> str:
    """Draw the chart as SVG: a logarithmic axis, on which losses point to the left."""
    high = max(_TICKS[-1], *(bar.times for bar in drawn))
    low = min(_TICKS[0], *(bar.times for bar in drawn))
    scale = (_WIDTH - _LABELS - _RIGHT) / math.log(high / low)

    def place(times: float) -> float:
        return round(_LABELS + math.log(times / low) * scale, 1)

    height = _TOP + _STEP * len(drawn) + 14
    size = f'width="{_WIDTH}" height="{height}"'
    font = 'font-family="system-ui, sans-serif" font-size="13"'
    title = "How many times better than the peer in the same run"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} viewBox="0 0 {_WIDTH} {height}" {font}>',
        f'<rect {size} rx="6" fill="#ffffff"/>',
        f'<text x="16" y="24" font-size="15" font-weight="600" fill="#222222">{title}</text>',
        f'<text x="{_LABELS - 10}" y="{_TOP - 12}" text-anchor="end" fill="#666666">worse ◂ 1 × ▸ better (log)</text>',
    ]
    for tick in _TICKS:
        x = place(tick)
        colour = "#222222" if tick == 1 else "#dddddd"
        parts.append(f'<line x1="{x}" y1="{_TOP - 6}" x2="{x}" y2="{height - 10}" stroke="{colour}"/>')
        parts.append(f'<text x="{x}" y="{_TOP - 12}" text-anchor="middle" fill="#666666">{tick:g} ×</text>')
    for at, bar in enumerate(drawn):
        y = _TOP + at * _STEP
        left, right = sorted((place(1), place(bar.times)))
        colour = _BETTER if bar.times >= 1 else _WORSE
        parts.append(
            f'<text x="{_LABELS - 10}" y="{y + 15}" text-anchor="end" fill="#222222">{escape(bar.label)}</text>'
        )
        parts.append(f'<rect x="{left}" y="{y + 3}" width="{right - left:.1f}" height="17" fill="{colour}"/>')
        value = f"{bar.times:.2g}" if bar.times < 10 else f"{bar.times:.0f}"
        x, anchor = (right + 6, "start") if bar.times >= 1 else (left - 6, "end")
        parts.append(f'<text x="{x:.1f}" y="{y + 16}" text-anchor="{anchor}" fill="#222222">{value}</text>')
    return "\n".join([*parts, "</svg>", ""])


def main() -> None:
    everything = list(load_all())
    drawn = bars(everything)
    PAGE.write_text(render(everything, drawn))
    CHART.write_text(draw(drawn))
    count = sum(len(each.results) for each in everything)
    print(f"{count} results in {PAGE.relative_to(ROOT)} and {CHART.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
