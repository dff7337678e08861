"""The results that a benchmark hands over, as values, each with name, unit and medians.

The `main` of a benchmark returns them as a list of `Finding`, and `benchmarks.record` saves them with date, machine
and commit. The names are those of the published results in `benchmarks/results`, where they mean the same case.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

HIGHER, LOWER = "higher", "lower"
OURS = "kafkalog"
"""The name of our contestant in most benchmarks."""

Figure = float | list[float] | None
"""A number; the lowest and the highest of several cases; or None where there is none."""

_WORDS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
_DIGITS = 4


@dataclass(frozen=True, kw_only=True)
class Finding:
    """The result of a benchmark for one case.

    Attributes:
        name: the case.
        unit: the unit of `ours` and `peer`.
        ours: kafkalog's median.
        peer: the median of `peer_name` in the same run.
        peer_name: what kafkalog was compared with.
        ratio: ours divided by the peer's.
        better: whether `higher` or `lower` figures are better.
        runs: the runs behind each median; of two contestants, the fewer.
    """

    name: str
    unit: str
    ours: Figure
    peer: Figure = None
    peer_name: str | None = None
    ratio: Figure = None
    better: str
    runs: int | None = None


def compared(
    name: str,
    unit: str,
    measured: Mapping[str, Sequence[float]],
    peers: Mapping[str, str],
    *,
    better: str = HIGHER,
    ours: str = OURS,
    scale: float = 1,
) -> list[Finding]:
    """Compare the median of our contestant with that of each peer that was measured.

    Args:
        name: the case.
        unit: the unit of the figures once they are multiplied by `scale`.
        measured: the figure of each run, by contestant.
        peers: the contestants to compare with, and what the result calls each.
        better: whether higher or lower figures are better.
        ours: our contestant in `measured`.
        scale: what each figure is multiplied by.

    Returns:
        One finding for each peer; one without a peer if none was measured; none if our contestant was not.
    """
    mine = measured.get(ours, ())
    if not mine:
        return []
    figure = median(mine)
    found = []
    for contestant, peer_name in peers.items():
        theirs = measured.get(contestant, ())
        if not theirs:
            continue
        beside = median(theirs)
        found.append(
            Finding(
                name=name,
                unit=unit,
                better=better,
                ours=rounded(figure * scale),
                peer=rounded(beside * scale),
                peer_name=peer_name,
                ratio=rounded(figure / beside) if beside else None,
                runs=min(len(mine), len(theirs)),
            )
        )
    return found or [Finding(name=name, unit=unit, better=better, ours=rounded(figure * scale), runs=len(mine))]


def spanned(name: str, findings: Iterable[Finding]) -> list[Finding]:
    """Sum up cases in one finding for each peer, from their lowest figure to their highest; none of fewer than two."""
    by_peer: dict[str | None, list[Finding]] = {}
    for each in findings:
        by_peer.setdefault(each.peer_name, []).append(each)
    return [
        Finding(
            name=name,
            unit=several[0].unit,
            better=several[0].better,
            ours=_span([each.ours for each in several]),
            peer=_span([each.peer for each in several]),
            peer_name=peer_name,
            ratio=_span([each.ratio for each in several]),
            runs=min((each.runs for each in several if each.runs is not None), default=None),
        )
        for peer_name, several in by_peer.items()
        if len(several) > 1
    ]


def _span(figures: Sequence[Figure]) -> Figure:
    numbers = [each for each in figures if isinstance(each, float | int)]
    return [min(numbers), max(numbers)] if numbers else None


def rounded(value: float) -> float:
    """Round a figure to the digits that are saved."""
    return float(f"{value:.{_DIGITS}g}")


def size(octets: int) -> str:
    """Name a size of records as the results do: `100 B`, `1 KB`."""
    return f"{octets} B" if octets < 1000 else f"{octets / 1000:g} KB"


def count(number: int) -> str:
    """Name a number of records as the results do: `900`, `150 K`, `10 M`."""
    for factor, letter in ((1_000_000, " M"), (1000, " K")):
        if number >= factor:
            return f"{number / factor:.4g}{letter}"
    return str(number)


def several(number: int, noun: str) -> str:
    """Name a few things: `one producer`, `three producers`."""
    return f"{_WORDS[number] if number < len(_WORDS) else number} {noun}{'' if number == 1 else 's'}"
