"""Rates drawn against partitions and against record sizes, and lines of any kind."""

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


def draw(path: Path, points: Sequence[Point]) -> None:
    """One row of panels a job: rows/s against partitions (a line a size), and against sizes (a line a partition count).

    Plain records are drawn where there are any, the first codec where not.
    """
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    codec = "none" if any(point.codec == "none" for point in points) else points[0].codec
    chosen = [point for point in points if point.codec == codec]
    jobs = list(dict.fromkeys(point.job for point in chosen))
    figure, panels = pyplot.subplots(len(jobs), 2, squeeze=False, figsize=(11, 4 * len(jobs)))
    for row, job in enumerate(jobs):
        for panel, across, label, unit in (
            (panels[row][0], True, "partitions", "B"),
            (panels[row][1], False, "bytes of a value", "partitions"),
        ):
            lines: dict[str, list[tuple[int, float]]] = defaultdict(list)
            for point in chosen:
                if point.job == job:
                    at, other = (point.partitions, point.size) if across else (point.size, point.partitions)
                    for name, rate in point.rates.items():
                        lines[f"{name}, {other} {unit}"].append((at, rate))
            for name, values in sorted(lines.items()):
                panel.plot(*zip(*sorted(values), strict=True), marker="o", label=name)
            panel.set_xscale("log", base=2)
            panel.set_xlabel(label)
            panel.set_ylabel("million rows/s")
            panel.set_ylim(bottom=0)
            panel.set_title(job)
            panel.legend(fontsize="x-small")
    figure.tight_layout()
    figure.savefig(path)


@dataclass(frozen=True)
class Panel:
    """Lines of (x, y) by their names; y begins at zero."""

    title: str
    x_label: str
    y_label: str
    lines: Mapping[str, Sequence[tuple[float, float]]]
    log_x: bool = False


def draw_panels(path: Path, panels: Sequence[Panel]) -> None:
    """The panels side by side."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, len(panels), squeeze=False, figsize=(5.5 * len(panels), 4))
    for axis, panel in zip(axes[0], panels, strict=True):
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
