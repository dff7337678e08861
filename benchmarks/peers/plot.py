"""Rates drawn against partitions, by record size, and lines of any kind."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple


class Point(NamedTuple):
    """A measurement of each contestant."""

    job: str
    partitions: int
    size: int
    """Bytes of a value."""
    codec: str
    rates: Mapping[str, float]
    """Millions of rows a second, by contestant."""


COLOURS = {"kafkalog": "tab:blue", "kafkalog from Kafka": "tab:cyan", "connector": "tab:orange", "ceiling": "0.6"}
DASHES = ("-", "--", ":", "-.")


def draw(path: Path, points: Sequence[Point]) -> None:
    """Draw a panel for each job and size of value: rows/s against partitions, in colours for contestants.

    Dashes stand for codecs. The scale of rows is logarithmic, and one for all panels.
    """
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot
    from matplotlib.ticker import NullLocator, ScalarFormatter

    jobs = list(dict.fromkeys(point.job for point in points))
    sizes = sorted({point.size for point in points})
    codecs = list(dict.fromkeys(point.codec for point in points))
    counts = sorted({point.partitions for point in points})
    figure, panels = pyplot.subplots(
        len(jobs), len(sizes), squeeze=False, sharex=True, sharey=True, figsize=(5.5 * len(sizes), 4.2 * len(jobs))
    )
    for row, job in enumerate(jobs):
        for panel, size in zip(panels[row], sizes, strict=True):
            lines: dict[tuple[str, str], list[tuple[int, float]]] = defaultdict(list)
            for point in points:
                if (point.job, point.size) == (job, size):
                    for name, rate in point.rates.items():
                        lines[name, point.codec].append((point.partitions, rate))
            for (name, codec), values in lines.items():
                panel.plot(
                    *zip(*sorted(values), strict=True), marker="o", markersize=4, color=COLOURS.get(name),
                    linestyle=DASHES[codecs.index(codec) % len(DASHES)],
                    label=f"{name}, {'plain' if codec == 'none' else codec}",
                )  # fmt: skip
            panel.set_xscale("log")
            panel.set_xticks(counts, [str(count) for count in counts], minor=False)
            panel.xaxis.set_minor_locator(NullLocator())
            panel.set_yscale("log")
            panel.yaxis.set_major_formatter(ScalarFormatter())
            panel.grid(axis="y", alpha=0.3)
            panel.set_xlabel("partitions")
            panel.set_title(f"{job}, values of {size} B")
        panels[row][0].set_ylabel("million rows/s")
    panels[0][-1].legend(fontsize="x-small", ncols=max(len(codecs), 1), loc="best")
    figure.tight_layout()
    figure.savefig(path, dpi=100)


@dataclass(frozen=True)
class Panel:
    """Lines of (x, y) by their names; y begins at zero."""

    title: str
    x_label: str
    y_label: str
    lines: Mapping[str, Sequence[tuple[float, float]]]
    log_x: bool = False


def draw_panels(path: Path, panels: Sequence[Panel], columns: int | None = None) -> None:
    """Draw the panels side by side, or in rows of so many columns."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    columns = columns or len(panels)
    rows = -(-len(panels) // columns)
    figure, axes = pyplot.subplots(rows, columns, squeeze=False, figsize=(5.5 * columns, 4 * rows))
    for axis in axes.flat[len(panels) :]:
        axis.remove()
    for axis, panel in zip(axes.flat[: len(panels)], panels, strict=True):
        for name, values in panel.lines.items():
            axis.plot(*zip(*values, strict=True), marker="o", markersize=3, label=name)
        if panel.log_x:
            axis.set_xscale("log")
        axis.set_xlabel(panel.x_label)
        axis.set_ylabel(panel.y_label)
        axis.set_ylim(bottom=0)
        axis.set_title(panel.title)
        axis.legend(fontsize="small")
    figure.tight_layout()
    figure.savefig(path, dpi=100)
