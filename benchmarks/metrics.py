"""The cost of a scrape of the metrics: its time and size, and the latency of hot traffic meanwhile.

Run from the repository: `python -m benchmarks.metrics [--partitions 10000]`. Hot traffic is that of
`benchmarks.cold_reads`: Produce and Fetch of one record every few milliseconds; measured alone, and while the metrics
are scraped again and again without a pause, which nobody does.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import threading
import time
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.cold_reads import HOT, WARM_UP_S, HotTraffic
from benchmarks.peers import report
from benchmarks.peers.brokers import OURS, stop_when_told
from benchmarks.recording.findings import LOWER, Finding, rounded
from benchmarks.scale import PER_TOPIC
from benchmarks.startup import started
from peers.process import free_port


def arguments(words: Sequence[str] | None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--partitions", type=int, nargs="+", default=[1, 1000, 10_000])
    parser.add_argument("--seconds", type=float, default=10, help="of each measurement")
    parser.add_argument("--interval-ms", type=float, default=4, help="between records")
    parser.add_argument("--dir", type=Path, help="where the data lies (default: a temporary directory)")
    return parser.parse_args(words)


def scrape_until(stop: threading.Event, url: str, spent: list[float], sizes: list[int]) -> None:
    while not stop.is_set():
        began = time.perf_counter()
        with urllib.request.urlopen(url, timeout=60) as answer:
            sizes.append(len(answer.read()))
        spent.append(time.perf_counter() - began)


def main(words: Sequence[str] | None = None) -> list[Finding]:
    """Measure and print a table; return the results."""
    stop_when_told()
    options = arguments(words)
    address = f"127.0.0.1:{free_port()}"
    measured: dict[int, Sequence[float]] = {}
    with tempfile.TemporaryDirectory(prefix="kafkalog-bench-", dir=options.dir) as directory:
        home = Path(directory) / "home"
        there = 0
        for count in options.partitions:
            with started(OURS, home, [f"kafkalog.metrics.listener={address}"]) as (broker, _):
                if not there:
                    broker.create_topic(HOT, 1)
                while there < count:
                    more = min(PER_TOPIC, count - there)
                    broker.create_topic(f"many-{there}", more)
                    there += more
                traffic = HotTraffic(broker)
                interval = options.interval_ms / 1000
                traffic.run(WARM_UP_S, interval)
                alone = traffic.run(options.seconds, interval)["produce"]
                stop, spent, sizes = threading.Event(), list[float](), list[int]()
                scraper = threading.Thread(target=scrape_until, args=(stop, f"http://{address}/metrics", spent, sizes))
                scraper.start()
                beside = traffic.run(options.seconds, interval)["produce"]
                stop.set()
                scraper.join()
                traffic.close()
            cuts = [statistics.quantiles(values, n=100) for values in (alone, beside)]
            measured[count] = [
                statistics.median(spent) * 1000,
                statistics.median(sizes) / 1e6,
                *(cut[at] for at in (49, 98) for cut in cuts),
                *(max(values) for values in (alone, beside)),
            ]
    rows = [
        [f"{count:,}", f"{figures[0]:.0f}", *(f"{each:.2f}" for each in figures[1:])]
        for count, figures in measured.items()
    ]
    header = ["partitions", "scrape ms", "MB", "p50 ms", "… scraped", "p99 ms", "… scraped", "max ms", "… scraped"]
    print(report.table(header, rows))
    print(f"\n{report.machine()}")
    return findings(measured)


COLUMNS = (
    ("a scrape", "ms"),
    ("size of a scrape", "MB"),
    ("produce p50", "ms"),
    ("produce p50 while scraped", "ms"),
    ("produce p99", "ms"),
    ("produce p99 while scraped", "ms"),
    ("longest produce", "ms"),
    ("longest produce while scraped", "ms"),
)
"""The names and units of the table's columns in the results."""


def findings(measured: Mapping[int, Sequence[float]]) -> list[Finding]:
    """Turn the figures of each number of partitions into results."""
    return [
        Finding(name=f"{what}, {partitions:,} partitions", unit=unit, better=LOWER, ours=rounded(figure), runs=1)
        for partitions, figures in measured.items()
        for (what, unit), figure in zip(COLUMNS, figures, strict=True)
    ]


if __name__ == "__main__":
    main()
