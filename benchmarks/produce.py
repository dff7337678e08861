"""Produce throughput and the broker's CPU per GB: Apache Kafka's own ProducerPerformance against kafkalog and Kafka.

Run from the repository: `python -m benchmarks.produce [--quick]`.

Every broker runs with the defaults of its distribution (Kafka: the flags of kafka-run-class.sh, a heap of 1 GB, the
settings of config/server.properties) and stays up for the whole benchmark; each run produces to a new topic of three
partitions. The tool is that of the newest Kafka, with the client's defaults but for `acks`. Runs go round the brokers
(A B C A B C), and the tables give medians. The transactional cases commit every 100 ms. Records/s is what the tool
reports after its warm-up (a tenth of the records), summed over the tools running at the same time. CPU is what the
broker's process and its children used from before the first tool started to after the last ended, divided by the bytes
of record values, warm-up included.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmarks.peers import report
from benchmarks.peers.brokers import APACHE, Broker, add_options, running
from benchmarks.recording.findings import LOWER, Finding, compared, several, size, spanned
from peers.brokers import kafka

TOOL = "org.apache.kafka.tools.ProducerPerformance"
# Per case: 500 MB of 100-byte records, 1 GB of 1 KB records
RECORDS = {100: 5_000_000, 1000: 1_000_000}
QUICK_SHARE = 5
PARTITIONS = 3
TRANSACTION_MS = 100
ALL_PLAIN = 4
"""Cases of a record size without transactions: two values of acks, one producer and three."""
TOOL_DEADLINE_S = 600.0
_SUMMARY = re.compile(
    r"records sent, ([\d.]+) records/sec \([\d.]+ MB/sec\), ([\d.]+) ms avg latency.*?(\d+) ms 99th", re.DOTALL
)


@dataclass(frozen=True)
class Case:
    record_size: int
    acks: str
    producers: int
    transactional: bool = False

    def __str__(self) -> str:
        plural = "s" if self.producers > 1 else ""
        kind = "transactions" if self.transactional else f"acks={self.acks}"
        return f"{self.record_size} B, {kind}, {self.producers} producer{plural}"


@dataclass(frozen=True)
class Result:
    records_per_s: float
    cpu_s_per_gb: float
    p99_ms: float


def tool_command(broker: Broker, topic: str, case: Case, records: int, producer: int) -> list[str]:
    args = ["--topic", topic, "--num-records", str(records), "--record-size", str(case.record_size)]
    args += ["--throughput", "-1", "--warmup-records", str(records // 10)]
    args += ["--bootstrap-server", broker.bootstrap, "--command-property", f"acks={case.acks}"]
    if case.transactional:
        args += ["--transactional-id", f"{topic}-{producer}", "--transaction-duration-ms", str(TRANSACTION_MS)]
    return kafka.tool_line(TOOL, args)


def measure(broker: Broker, case: Case, records: int, serial: int) -> Result:
    """Run once, with so many records in all."""
    topic = f"produce-{serial}"
    broker.create_topic(topic, PARTITIONS)
    share = records // case.producers
    commands = [tool_command(broker, topic, case, share, number) for number in range(case.producers)]
    before = broker.cpu_seconds()
    found = run_tools(commands)
    cpu = broker.cpu_seconds() - before
    wanted, sent = share * case.producers, sum(broker.end_offsets(topic, PARTITIONS))
    # Each transaction's marker has an offset, too.
    if sent < wanted or (sent > wanted and not case.transactional):
        raise RuntimeError(f"{broker.name} holds {sent} records of {wanted}")
    broker.delete_topic(topic)
    gigabytes = share * case.producers * case.record_size / 1e9
    return Result(sum(rate for rate, _ in found), cpu / gigabytes, max(p99 for _, p99 in found))


def run_tools(commands: Sequence[Sequence[str]]) -> list[tuple[float, float]]:
    """Run producers at the same time, and return the `summary_of` each.

    Raises:
        RuntimeError: one has failed.
    """
    tools = [
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) for command in commands
    ]
    try:
        outputs = [tool.communicate(timeout=TOOL_DEADLINE_S)[0] for tool in tools]
    finally:
        for tool in tools:
            tool.kill()
    for tool, output in zip(tools, outputs, strict=True):
        if tool.returncode:
            raise RuntimeError(f"{TOOL} has failed:\n{output[-3000:]}")
    return [summary_of(output) for output in outputs]


def summary_of(output: str) -> tuple[float, float]:
    """Return records/s and the 99th percentile of latencies in ms, in the steady state that the tool has printed.

    Raises:
        RuntimeError: it has printed none.
    """
    found = _SUMMARY.findall(output)
    if not found:
        raise RuntimeError(f"{TOOL} has told no result:\n{output[-3000:]}")
    # The last summary is the one after the warm-up.
    rate, _, p99 = found[-1]
    return float(rate), float(p99)


def arguments(words: Sequence[str] | None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser)
    parser.add_argument("--records", type=int, help="records of a run (default: 500 MB of 100 B, 1 GB of 1 KB)")
    parser.add_argument("--sizes", type=int, nargs="+", default=list(RECORDS), help="bytes of a record")
    parser.add_argument("--acks", nargs="+", default=["1", "all"])
    parser.add_argument("--producers", type=int, nargs="+", default=[1, 3], help="tools at the same time")
    parser.add_argument("--transactional", nargs="+", type=int, default=[0, 1], help="0: plain, 1: in transactions")
    return parser.parse_args(words)


def main(words: Sequence[str] | None = None) -> list[Finding]:
    """Measure and print two tables; return the results."""
    options = arguments(words)
    cases = [
        Case(size, acks, count, bool(transactional))
        for size in options.sizes
        for transactional in options.transactional
        for acks in (["all"] if transactional else options.acks)
        for count in options.producers
    ]
    runs = 1 if options.quick else options.runs
    results: dict[Case, dict[str, list[Result]]] = {case: defaultdict(list) for case in cases}
    serial = 0

    def count_for(case: Case) -> int:
        records: int = options.records or RECORDS.get(case.record_size, 500_000_000 // case.record_size)
        return records // QUICK_SHARE if options.quick else records

    with running(options.brokers, options.dir, options.override) as brokers:
        for broker in brokers:
            warm = Case(100, "1", 1)
            serial += 1
            measure(broker, warm, count_for(warm) // 2, serial)
        for case in cases:
            for _ in range(runs):
                for broker in brokers:
                    serial += 1
                    result = measure(broker, case, count_for(case), serial)
                    results[case][broker.name].append(result)
                    print(f"{time.strftime('%X')} {broker.name:12} {case!s:32} {result}", file=sys.stderr, flush=True)
    show(results, options.brokers)
    return findings(results)


def title(case: Case) -> str:
    """Name a case as the results do."""
    producers = several(case.producers, "producer")
    if case.transactional:
        kind = f"that commit{'s' * (case.producers == 1)} a transaction every {TRANSACTION_MS} ms"
        return f"{size(case.record_size)}, {producers} {kind}"
    return f"{size(case.record_size)}, acks={case.acks}, {producers}"


def findings(results: Mapping[Case, Mapping[str, Sequence[Result]]]) -> list[Finding]:
    """Turn what was measured into results."""
    found: list[Finding] = []
    costs: dict[int, list[Finding]] = defaultdict(list)
    for case, measured in results.items():

        def figures(field: str, measured: Mapping[str, Sequence[Result]] = measured) -> dict[str, list[float]]:
            return {name: [getattr(each, field) for each in taken] for name, taken in measured.items()}

        cost = compared(f"{title(case)}: broker CPU for a GB", "s", figures("cpu_s_per_gb"), APACHE, better=LOWER)
        found += compared(title(case), "records/s", figures("records_per_s"), APACHE)
        found += cost
        found += compared(f"{title(case)}: p99 at full speed", "ms", figures("p99_ms"), APACHE, better=LOWER)
        if not case.transactional:
            costs[case.record_size] += cost
    for octets, several_costs in costs.items():
        if sum(case.record_size == octets and not case.transactional for case in results) == ALL_PLAIN:
            found += spanned(f"{size(octets)}, all cases: broker CPU for a GB", several_costs)
    return found


def show(results: dict[Case, dict[str, list[Result]]], names: list[str]) -> None:
    """Print the tables."""
    figures = (
        ("records/s", "records_per_s", ",.0f"),
        ("broker CPU s per GB", "cpu_s_per_gb", ".2f"),
        ("p99 ms at full speed", "p99_ms", ".0f"),
    )
    print(f"\n{report.by_field(results, names, figures)}")
    print(f"\n{report.machine()}")


if __name__ == "__main__":
    main()
