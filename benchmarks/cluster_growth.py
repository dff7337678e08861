"""The growth of a cluster's costs with partitions and with replicas: three brokers beside three of Apache Kafka.

Run from the repository: `python -m benchmarks.cluster_growth [--parts partitions replicas] [--plots docs/images]`.

- partitions: a topic of so many partitions with three replicas. CPU and resident memory of the three brokers without
  traffic; and the time until no partition is led by a broker that is stopped, or killed, which led a third of them.
- replicas: ProducerPerformance of the newest Apache Kafka sends records of 1 KB with acks=all to three partitions with
  one, two and three replicas. CPU is that of all brokers, divided by the bytes of record values.

Brokers run with the defaults of their distributions, but `min.insync.replicas=2` where there are so many replicas. For
partitions each cluster runs alone; for replicas both run, and take turns.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Sequence
from itertools import product
from pathlib import Path

from benchmarks.cluster import APACHE, KILLED, PARTITIONS, STOPPED, Measured, idle, leaders_moved, produce, show
from benchmarks.peers import report
from benchmarks.peers.clusters import CLUSTERS, Cluster, running
from benchmarks.peers.plot import Panel, draw_panels
from benchmarks.recording.findings import HIGHER, LOWER, Finding, compared, count

PARTS = ("partitions", "replicas")
COUNTS = (100, 1000, 4000)
REPLICAS = (1, 2, 3)
RECORDS, OCTETS = 200_000, 1000
QUIET_S = 10.0
QUICK_SHARE = 10
FILE = "cluster-growth.png"

CPU, MEMORY, STOPS, KILLS, RATE, COST = (
    "{} partitions, idle: CPU",
    "{} partitions, idle: resident memory",
    "{} partitions: a third of the leaders moved after SIGTERM",
    "{} partitions: a third of the leaders moved after kill -9",
    "produce 1 KB, acks=all, {} replicas",
    "produce 1 KB, acks=all, {} replicas: CPU of all brokers for a GB",
)
UNITS = {
    CPU: ("% of a core", LOWER),
    MEMORY: ("MB", LOWER),
    STOPS: ("s", LOWER),
    KILLS: ("s", LOWER),
    RATE: ("MB/s", HIGHER),
    COST: ("s", LOWER),
}
"""The unit of each case, and whether higher or lower figures are better."""
OF_PARTITIONS, OF_REPLICAS = (CPU, MEMORY, STOPS, KILLS), (RATE, COST)


def measure_partitions(cluster: Cluster, measured: Measured, number: int, runs: int, quiet_s: float) -> None:
    """Measure a topic of so many partitions, and delete it."""
    topic = f"growth-{number}"
    cluster.create_topic(topic, number)
    for _ in range(runs):
        cpu, memory = idle(cluster, quiet_s)
        measured.add(CPU.format(count(number)), cluster, cpu)
        measured.add(MEMORY.format(count(number)), cluster, memory)
        for case, how in ((STOPS, STOPPED), (KILLS, KILLED)):
            measured.add(case.format(count(number)), cluster, leaders_moved(cluster, how, topic, number))
    cluster.delete_topic(topic)


def measure_replicas(
    clusters: Sequence[Cluster], measured: Measured, numbers: Sequence[int], runs: int, records: int
) -> None:
    """Measure topics of one replica and of more."""
    for turn, number, cluster in product(range(-1, runs), numbers, clusters):
        topic = f"replicas-{turn + 1}-{number}"
        cluster.create_topic(topic, PARTITIONS, number)
        rate, cpu = produce(cluster, topic, OCTETS, "all", records)
        # The first turn warms both up.
        if turn >= 0:
            measured.add(RATE.format(number), cluster, rate * OCTETS / 1e6)
            measured.add(COST.format(number), cluster, cpu)


def plot(measured: Measured, names: Sequence[str], counts: Sequence[int], path: Path) -> None:
    """Draw each case against partitions or replicas."""
    panels = []
    for case in UNITS:
        numbers = counts if case in OF_PARTITIONS else REPLICAS
        lines: dict[str, list[tuple[float, float]]] = defaultdict(list)
        for name, number in product(names, numbers):
            label = count(number) if case in OF_PARTITIONS else number
            if figures := measured.results.get(case.format(label), {}).get(name):
                lines[name].append((number, report.median(figures)))
        if lines:
            title = case.replace("{} partitions, ", "").replace("{} partitions: ", "").replace(", {} replicas", "")
            label = "partitions" if case in OF_PARTITIONS else "replicas"
            panels.append(Panel(title, label, UNITS[case][0], lines, log_x=case in OF_PARTITIONS))
    draw_panels(path, panels, columns=2)


def arguments(words: Sequence[str] | None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clusters", nargs="+", default=list(CLUSTERS), choices=CLUSTERS, metavar="NAME")
    parser.add_argument("--dir", type=Path, help="where the brokers keep their data (default: a temporary directory)")
    parser.add_argument("--parts", nargs="+", default=list(PARTS), choices=PARTS, help="what to measure")
    parser.add_argument("--partitions", type=int, nargs="+", default=list(COUNTS))
    parser.add_argument("--runs", type=int, default=1, help="runs of each case on each cluster")
    parser.add_argument("--plots", type=Path, help="directory for the plot; none is drawn without")
    parser.add_argument("--quick", action="store_true", help="less of everything: a look, not a measurement")
    return parser.parse_args(words)


def units_of(partitions: Sequence[int]) -> dict[str, tuple[str, str]]:
    """Return the unit of each case, and whether higher or lower figures are better."""
    cases = {case.format(count(number)): UNITS[case] for case, number in product(OF_PARTITIONS, partitions)}
    return cases | {case.format(number): UNITS[case] for case, number in product(OF_REPLICAS, REPLICAS)}


def findings(measured: Measured) -> list[Finding]:
    """Turn what was measured into results."""
    found: list[Finding] = []
    for case, by in measured.results.items():
        unit, better = measured.units[case]
        found += compared(case, unit, by, APACHE, better=better)
    return found


def main(words: Sequence[str] | None = None) -> list[Finding]:
    """Measure and print the results; return them."""
    options = arguments(words)
    share = QUICK_SHARE if options.quick else 1
    measured = Measured(units_of(options.partitions))
    for name in options.clusters if "partitions" in options.parts else ():
        with running([name], options.dir, {}) as (cluster,):
            for number in options.partitions:
                measure_partitions(cluster, measured, number, options.runs, QUIET_S / share)
    if "replicas" in options.parts:
        with running(options.clusters, options.dir, {}) as clusters:
            measure_replicas(clusters, measured, REPLICAS, options.runs, RECORDS // share)
    if options.plots:
        options.plots.mkdir(parents=True, exist_ok=True)
        plot(measured, options.clusters, options.partitions, options.plots / FILE)
    show(measured, options.clusters)
    return findings(measured)


if __name__ == "__main__":
    main()
