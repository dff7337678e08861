"""The growth of costs: with partitions, with gigabytes to recover, with segments. kafkalog beside Apache Kafka.

Run from the repository: `python -m benchmarks.scale [--parts partitions recovery segments] [--plots docs/images]`.

- partitions: topics of 1,000 partitions are made until there are so many; then, after a clean stop, the time from the
  start of the process to the first answer to ApiVersions and Metadata, and resident memory eight seconds later, without
  anything having been read or written. "a partition" is what memory grows by, divided by the partitions.
- recovery: 16 partitions get records of 1 KB in batches of 16 KiB (Produce over one socket, acks=1); the broker is
  killed with SIGKILL and started again with `num.recovery.threads.per.data.dir=2`. What the start takes longer than
  one after a clean stop is the recovery. Further runs take the clean-shutdown marker and the recovery points away
  instead, which leaves the same work. The pages are in the page cache: this is the speed of checking, not of the disk.
- segments: one log, in this process, segments of 1 MiB: the cost of an append, rolls included, and of the look-up of a
  read in the first, a middle and the last segment, as segments grow.

Brokers run with the defaults of their distributions, one at a time, in turns.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from benchmarks.peers import big_log, report
from benchmarks.peers.brokers import APACHE, NAMES, OURS, Broker, stop_when_told
from benchmarks.peers.plot import Panel, draw_panels
from benchmarks.recording.findings import HIGHER, LOWER, Finding, compared, rounded
from benchmarks.startup import started
from broker.log.log import Log
from broker.log.log_config import LogConfig
from kafkalog.protocol.codec import encode_request
from kafkalog.records.kernels import loader
from peers.brokers import probe
from tests.support.wire import produce_request, receive_frame

PER_TOPIC = 1000
SETTLE_S = 8.0
QUICK_SETTLE_S = 5.0
RECOVERED_PARTITIONS = 16
RECOVERY = {"num.recovery.threads.per.data.dir": "2"}
PRODUCE_VERSION = 7
PARTITION_FIGURES = ("made up to {:,}, s", "start, {:,} partitions, s", "resident memory, {:,} partitions, MB")
SEGMENT_BYTES = 1 << 20
WARM_UP_SEGMENTS = 20
NOW_MS = big_log.NOW_MS

Results = dict[str, dict[str, list[float]]]
Figures = Mapping[str, Mapping[str, Sequence[float]]]
"""The figures of each run, by row of the table and broker."""


def log_dir(name: str, home: Path) -> Path:
    return home / ("log" if name == OURS else "data")


def note(text: str) -> None:
    print(f"{time.strftime('%X')} {text}", file=sys.stderr, flush=True)


# -- partitions


def partitions(root: Path, options: argparse.Namespace) -> list[Finding]:
    """Measure brokers of more and more partitions."""
    results: Results = defaultdict(lambda: defaultdict(list))
    for name in options.brokers:
        home = root / f"partitions-{name.replace(' ', '-')}"
        there = 0
        for count in options.partitions:
            with started(name, home, options.override) as (broker, _):
                began = time.perf_counter()
                while there < count:
                    more = min(PER_TOPIC, count - there)
                    broker.create_topic(f"many-{there}", more)
                    there += more
                results[f"made up to {count:,}, s"][name].append(time.perf_counter() - began)
            for _ in range(options.runs):
                with started(name, home, options.override) as (broker, spent):
                    time.sleep(QUICK_SETTLE_S if options.quick else SETTLE_S)
                    results[f"start, {count:,} partitions, s"][name].append(spent)
                    results[f"resident memory, {count:,} partitions, MB"][name].append(broker.resident_bytes() / 1e6)
            figures = [results[key.format(count)][name] for key in PARTITION_FIGURES]
            note(f"{name} {count:,} partitions: " + ", ".join(f"{report.median(each):.2f}" for each in figures))
        shutil.rmtree(home)
    fewest, most = options.partitions[0], options.partitions[-1]
    if most > fewest:
        for name in options.brokers:
            low, high = (report.median(results[f"resident memory, {n:,} partitions, MB"][name]) for n in (fewest, most))
            results["a partition, KB"][name].append((high - low) * 1000 / (most - fewest))
    show(results, options.brokers)
    if options.plots:
        panels = [
            Panel(
                title,
                "partitions",
                unit,
                {
                    name: [(n, report.median(results[key.format(n)][name])) for n in options.partitions]
                    for name in options.brokers
                },
                log_x=True,
            )
            for title, unit, key in (
                ("start after a clean stop", "seconds", "start, {:,} partitions, s"),
                ("resident memory", "MB", "resident memory, {:,} partitions, MB"),
            )
        ]
        draw_panels(options.plots / "scale-partitions.png", panels)
    return partition_findings(results)


def partition_findings(results: Figures) -> list[Finding]:
    """Turn what was measured into results."""
    kinds = (
        (re.compile(r"made up to ([\d,]+), s"), r"make topics up to \1 partitions", "s"),
        (re.compile(r"start, ([\d,]+) partitions?, s"), r"start after a clean stop, \1 partitions", "s"),
        (re.compile(r"resident memory, ([\d,]+) partitions, MB"), r"resident memory, \1 partitions", "MB"),
        (re.compile(r"a partition, KB"), "resident memory that a partition adds", "KB"),
    )
    found: list[Finding] = []
    for row, measured in results.items():
        title, unit = next((like.sub(name, row), unit) for like, name, unit in kinds if like.fullmatch(row))
        title = re.sub(r"\b1 partitions", "1 partition", title)
        found += compared(title, unit, measured, APACHE, better=LOWER)
    return found


# -- recovery


def fill(broker: Broker, topic: str, total: int) -> None:
    """Produce `total` bytes, a batch to every partition in each request."""
    data = {index: big_log.template(16 << 10) for index in range(RECOVERED_PARTITIONS)}
    frame = encode_request(produce_request(topic, data), PRODUCE_VERSION, 1, "fill")
    whole = bytes(frame) if isinstance(frame, bytes | bytearray) else b"".join(frame)
    sent = 0
    with probe.connect(broker.bootstrap, 60) as sock:
        while sent < total:
            sock.sendall(whole)
            if not receive_frame(sock):
                raise ConnectionError(f"{broker.name} closed the connection")
            sent += len(whole)


def as_after_a_crash(directory: Path) -> None:
    (directory / ".kafka_cleanshutdown").unlink()
    (directory / "recovery-point-offset-checkpoint").unlink()


def recovery(root: Path, options: argparse.Namespace) -> list[Finding]:
    """Measure starts after SIGKILL, and after a clean stop."""
    results: Results = defaultdict(lambda: defaultdict(list))
    total = int(options.gigabytes * 1e9)
    overrides = [*options.override, *(f"{key}={value}" for key, value in RECOVERY.items())]
    homes = {name: root / f"recovery-{name.replace(' ', '-')}" for name in options.brokers}
    held: dict[str, list[int]] = {}
    for name, home in homes.items():
        with started(name, home, overrides, RECOVERY) as (broker, _):
            broker.create_topic("much", RECOVERED_PARTITIONS)
            fill(broker, "much", total)
            held[name] = broker.end_offsets("much", RECOVERED_PARTITIONS)
            os.kill(broker.pid, signal.SIGKILL)
        note(f"{name} filled")
    for run in range(options.runs):
        for name, home in homes.items():
            if run:
                as_after_a_crash(log_dir(name, home))
            with started(name, home, overrides, RECOVERY) as (broker, crashed):
                if broker.end_offsets("much", RECOVERED_PARTITIONS) != held[name]:
                    raise RuntimeError(f"{name} holds {broker.end_offsets('much', RECOVERED_PARTITIONS)}")
            with started(name, home, overrides, RECOVERY) as (_, clean):
                pass
            results["start after kill -9, s"][name].append(crashed)
            results["start after a clean stop, s"][name].append(clean)
            results["recovered, GB/s"][name].append(options.gigabytes / max(crashed - clean, 1e-3))
            note(f"{name} {results['recovered, GB/s'][name][-1]:.2f} GB/s")
    show(results, options.brokers)
    return recovery_findings(results, options.gigabytes)


def recovery_findings(results: Figures, gigabytes: float) -> list[Finding]:
    """Turn what was measured into results."""
    load = f"{gigabytes:g} GB in batches of 16 KiB"
    found: list[Finding] = []
    for row, title, unit, better in (
        ("recovered, GB/s", "recovery after kill -9", "GB/s", HIGHER),
        ("start after kill -9, s", "start after kill -9", "s", LOWER),
        ("start after a clean stop, s", "start after a clean stop", "s", LOWER),
    ):
        found += compared(f"{title}, {load}", unit, results.get(row, {}), APACHE, better=better)
    return found


# -- segments


def segments(root: Path, options: argparse.Namespace) -> list[Finding]:
    """Measure appends and look-ups while the segments of a log grow in number."""
    loader.load("validation")
    batch = big_log.template(16 << 10)
    log = Log.open(root / "segments-0", LogConfig(segment_bytes=SEGMENT_BYTES), clean=True, now_ms=NOW_MS)
    per_segment = SEGMENT_BYTES // len(batch)
    buffers = [bytearray(batch) for _ in range(per_segment)]
    appends: list[float] = []
    looks: dict[str, list[tuple[float, float]]] = defaultdict(list)
    wanted = sorted({1, 2, 5, *(n for n in (10, 20, 50, 100, 200, 500, 1000, 2000, 5000) if n < options.segments)})
    for number in range(1 - WARM_UP_SEGMENTS, options.segments + 1):
        if number == 1:
            # From the beginning again, with everything warm.
            log.truncate_fully_and_start_at(0, now_ms=NOW_MS)
            appends.clear()
        for buffer in buffers:
            buffer[:8] = bytes(8)
        began = time.perf_counter()
        for buffer in buffers:
            log.append_batch(memoryview(buffer), leader_epoch=0, now_ms=NOW_MS)
        appends.append((time.perf_counter() - began) / per_segment * 1e6)
        log.high_watermark = log.log_end_offset
        if number in wanted or number == options.segments:
            for where, cost in look_ups(log).items():
                looks[where].append((number, cost))
    window = max(options.segments // 50, 1)
    smooth: list[tuple[float, float]] = [
        (i + window, statistics.median(appends[i : i + window])) for i in range(0, len(appends) - window + 1, window)
    ]
    rows = [
        ["append of 16 KiB, rolls included, us", *(f"{smooth[at][1]:.1f}" for at in (0, len(smooth) // 2, -1))],
        *(
            [f"look-up in {where}, us", *(f"{costs[at][1]:.1f}" for at in (0, len(costs) // 2, -1))]
            for where, costs in looks.items()
        ),
    ]
    middle = looks["the first segment"][len(looks["the first segment"]) // 2][0]
    print(report.table(["", "at segment 1", f"at segment {middle:,.0f}", f"at segment {options.segments:,}"], rows))
    print()
    log.close()
    if options.plots:
        draw_panels(
            options.plots / "scale-segments.png",
            [
                Panel("append of a 16 KiB batch", "segments", "microseconds", {"kafkalog": smooth}),
                Panel("look-up of a read", "segments", "microseconds", dict(looks)),
            ],
        )
    return segment_findings(options.segments, smooth, looks)


def segment_findings(
    number: int, appends: Sequence[tuple[float, float]], looks: Mapping[str, Sequence[tuple[float, float]]]
) -> list[Finding]:
    """Turn the last figures, at the most segments, into results."""
    costs = {"append of 16 KiB, rolls included": appends[-1][1]}
    costs |= {f"look-up in {where}": measured[-1][1] for where, measured in looks.items()}
    return [
        Finding(name=f"{what}, {number:,} segments", unit="µs", better=LOWER, ours=rounded(cost), runs=1)
        for what, cost in costs.items()
    ]


def look_ups(log: Log) -> dict[str, float]:
    """Return the microseconds of a look-up by where it looks; no offset is asked for twice."""
    found = {}
    for where, at in (("the first segment", 0), ("a middle one", len(log.segments) // 2), ("the last", -1)):
        segment = log.segments[at]
        following = [each.base_offset for each in log.segments[at + 1 :]] if at != -1 else []
        end = following[0] if following else log.log_end_offset
        offsets = list(range(segment.base_offset, end, 7))
        log.read(segment.base_offset, 1 << 20)
        costs = []
        for _ in range(5):
            began = time.perf_counter()
            for offset in offsets:
                log.read(offset, 1 << 20)
            costs.append((time.perf_counter() - began) / len(offsets) * 1e6)
        found[where] = min(costs)
    return found


def show(results: Results, names: list[str]) -> None:
    rows = [report.compare(what, {n: found[n] for n in names}, ",.2f") for what, found in results.items()]
    print(report.table(report.header("", names), rows))
    print()


PARTS: dict[str, Callable[[Path, argparse.Namespace], list[Finding]]] = {
    "partitions": partitions,
    "recovery": recovery,
    "segments": segments,
}


def arguments(words: Sequence[str] | None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--brokers", nargs="+", default=list(NAMES[:2]), choices=NAMES, metavar="NAME")
    parser.add_argument("--partitions", type=int, nargs="+", default=[1, 1000, 10_000])
    parser.add_argument("--gigabytes", type=float, default=4, help="to recover")
    parser.add_argument("--segments", type=int, default=1000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--plots", type=Path, help="directory for the plots; none are drawn without")
    parser.add_argument("--dir", type=Path, help="where the data lies (default: a temporary directory)")
    parser.add_argument("--override", action="append", default=[], metavar="KEY=VALUE", help="kafkalog's settings")
    parser.add_argument("--quick", action="store_true", help="one run of little: a look, not a measurement")
    options = parser.parse_args(words)
    if options.quick:
        options.partitions, options.gigabytes, options.segments, options.runs = [1, 500], 0.3, 100, 1
    return options


def main(words: Sequence[str] | None = None) -> list[Finding]:
    """Measure and print a table for each part; return the results."""
    stop_when_told()
    options = arguments(words)
    if options.plots:
        options.plots.mkdir(parents=True, exist_ok=True)
    root = Path(tempfile.mkdtemp(prefix="kafkalog-bench-", dir=options.dir))
    found: list[Finding] = []
    try:
        for part in options.parts:
            found += PARTS[part](root, options)
    finally:
        shutil.rmtree(root, ignore_errors=True)
    print(report.machine())
    return found


if __name__ == "__main__":
    main()
