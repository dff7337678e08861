"""Latency of hot traffic while somebody reads a log that is on the disk alone: kafkalog beside Apache Kafka.

Run from the repository: `python -m benchmarks.cold_reads`, the full run: 20 GB, three rounds of both brokers. It
takes six to nine minutes, 21 GB of space where `--dir` is, which must be on a disk, and Linux. Leave the machine
alone meanwhile: on two cores whatever else runs moves the p99 more than a reader does. A small run, of two minutes:
`--gigabytes 6 --seconds 5 --runs 2`. Give it 1.2 GB or more a second, or the cold reader is through too early. A
look, of one minute: `--quick`.

A log of so many gigabytes (1 KB records in batches of 16 KiB, segments of 1 GiB) is written once and given to each
broker. Hot traffic is one record of 1,000 bytes every few milliseconds to another topic: Produce with acks=1 over one
socket, then the Fetch of that record over a second one; both are timed, from sending the request to having the whole
answer. It is measured

- alone;
- while a third connection, in a process of its own, fetches the big log from its beginning, 1 MiB a request, one in
  flight; before each of its readings the log's pages are dropped from the page cache;
- while that reader reads a copy of the log from another kafkalog broker, which hot traffic has nothing to do with: what
  the same work costs its neighbours on a machine whose processors and disk they share. Only what the hot traffic's own
  broker adds to that is its doing;
- while the reader fetches the first segment again and again, which lies in memory: where nobody waits for a disk.

Brokers run with the defaults of their distributions, both at once, and are measured in turns.
"""

from __future__ import annotations

import argparse
import json
import os
import select
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from itertools import chain
from pathlib import Path

from benchmarks.peers import big_log, raw_fetch, report
from benchmarks.peers.brokers import APACHE, NAMES, OURS, Broker, stop_when_told
from benchmarks.recording.findings import LOWER, Finding, compared
from benchmarks.startup import started
from kafkalog.protocol.codec import encode_request
from kafkalog.protocol.schema import Request
from peers.brokers import probe
from tests.support.wire import batch, fetch_request, list_offset, produce_request, receive_frame

PRODUCE_VERSION, FETCH_VERSION = 7, 4
ERROR_AT = {"produce": 14, "fetch": 20}
"""The offset of the error code in an answer, without the length of the topic's name."""
COLD, HOT, WARM = "cold", "hot", "warm"
ELSEWHERE = "other broker's"
WARM_UP_S = 3.0


class HotTraffic:
    """Produce and fetch of one record at a time, timed."""

    def __init__(self, broker: Broker) -> None:
        self._producer = probe.connect(broker.bootstrap, 20)
        self._consumer = probe.connect(broker.bootstrap, 20)
        self._offset = int(list_offset(self._consumer, HOT, version=4).offset)
        self._frame = self._encode(produce_request(HOT, {0: batch([os.urandom(1000)])}), PRODUCE_VERSION)

    @staticmethod
    def _encode(message: Request, version: int) -> bytes:
        return encode_request(message, version, 1, "hot")

    def run(self, seconds: float, interval: float) -> dict[str, list[float]]:
        """Return the milliseconds of each exchange; one begins every `interval` seconds."""
        spent: dict[str, list[float]] = {"produce": [], "fetch": []}
        end = time.perf_counter() + seconds
        due = time.perf_counter()
        while due < end:
            time.sleep(max(due - time.perf_counter(), 0))
            wanted = self._encode(fetch_request(HOT, {0: self._offset}, max_wait_ms=1000), FETCH_VERSION)
            spent["produce"].append(self._exchange(self._producer, self._frame, "produce"))
            spent["fetch"].append(self._exchange(self._consumer, wanted, "fetch"))
            self._offset += 1
            due = max(due + interval, time.perf_counter())
        return spent

    @staticmethod
    def _exchange(sock: socket.socket, frame: bytes, what: str) -> float:
        began = time.perf_counter()
        sock.sendall(frame)
        answer = receive_frame(sock)
        spent = (time.perf_counter() - began) * 1000
        at = ERROR_AT[what] + len(HOT)
        if int.from_bytes(answer[at : at + 2], "big"):
            raise RuntimeError(f"{what} was answered error code {int.from_bytes(answer[at : at + 2], 'big')}")
        return spent

    def close(self) -> None:
        self._producer.close()
        self._consumer.close()


def read_big_log(bootstrap: str, end: int, times: int) -> None:
    """Read the big log so many times to its end, or until standard input is closed, in a process of its own."""
    began = time.perf_counter()
    total = 0
    ended = True
    for got in chain.from_iterable(raw_fetch.stream(bootstrap, COLD, 0, end) for _ in range(times)):
        total += got
        if select.select([sys.stdin], [], [], 0)[0]:
            ended = False
            break
    print(json.dumps({"bytes": total, "seconds": time.perf_counter() - began, "ended": ended}))


@contextmanager
def reader(broker: Broker, end: int, rates: list[float], times: int = 1) -> Iterator[None]:
    """Keep a reader beside what is measured, and add its MB/s to `rates` at the end."""
    command = [sys.executable, "-m", "benchmarks.cold_reads", "--reader", broker.bootstrap, str(end), str(times)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        time.sleep(0.5)  # the interpreter starts
        yield
        out, _ = process.communicate(timeout=30)
    finally:
        process.kill()
    told = json.loads(out)
    rates.append(told["bytes"] / told["seconds"] / 1e6)
    if told["ended"]:
        print(f"{broker.name}: the reader was through after {told['seconds']:.1f} s: more --gigabytes", file=sys.stderr)


def prepare(name: str, home: Path, source: Path, options: argparse.Namespace) -> None:
    """Make the directory of a stopped broker with the big log in it."""
    with started(name, home, options.override) as (broker, _):
        broker.create_topic(COLD, 1)
        broker.create_topic(HOT, 1)
    big_log.plant(source, log_dir(name, home) / f"{COLD}-0")


def log_dir(name: str, home: Path) -> Path:
    return home / ("log" if name == OURS else "data")


def arguments(words: Sequence[str] | None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--brokers", nargs="+", default=list(NAMES[:2]), choices=NAMES, metavar="NAME")
    parser.add_argument("--gigabytes", type=float, default=20)
    parser.add_argument("--seconds", type=float, default=10, help="of each measurement")
    parser.add_argument("--interval-ms", type=float, default=4, help="between records")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--dir", type=Path, help="where the data lies (default: a temporary directory)")
    parser.add_argument("--override", action="append", default=[], metavar="KEY=VALUE", help="kafkalog's settings")
    parser.add_argument("--reader", nargs=3, help=argparse.SUPPRESS)
    parser.add_argument("--quick", action="store_true", help="one short run of 3 GB: a look, not a measurement")
    options = parser.parse_args(words)
    if options.quick:
        options.gigabytes, options.seconds, options.runs = 3.0, 2.0, 1
    return options


def main(words: Sequence[str] | None = None) -> list[Finding]:
    """Measure and print two tables; return the results."""
    stop_when_told()
    options = arguments(words)
    if options.reader:
        read_big_log(options.reader[0], int(options.reader[1]), int(options.reader[2]))
        return []
    root = Path(tempfile.mkdtemp(prefix="kafkalog-bench-", dir=options.dir))
    try:
        return measure(root, options)
    finally:
        shutil.rmtree(root, ignore_errors=True)


def measure(root: Path, options: argparse.Namespace) -> list[Finding]:
    """Measure every broker in turns, and print the tables."""
    source = root / f"{COLD}-0"
    began = time.perf_counter()
    end = big_log.write(source, int(options.gigabytes * 1e9))
    print(f"{options.gigabytes:g} GB written in {time.perf_counter() - began:.0f} s", file=sys.stderr, flush=True)
    warm_end = big_log.second_base_offset(source)
    found: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    rates: dict[str, dict[str, list[float]]] = {kind: defaultdict(list) for kind in (COLD, ELSEWHERE, WARM)}
    with ExitStack() as stack:
        brokers = []
        prepare(OURS, root / "elsewhere", source, options)
        elsewhere, _ = stack.enter_context(started(OURS, root / "elsewhere", options.override))
        for name in options.brokers:
            home = root / name.replace(" ", "-")
            prepare(name, home, source, options)
            broker, _ = stack.enter_context(started(name, home, options.override))
            traffic = HotTraffic(broker)
            stack.callback(traffic.close)
            brokers.append((broker, traffic))
        for _, traffic in brokers:
            traffic.run(WARM_UP_S, options.interval_ms / 1000)
        for _ in range(options.runs):
            for broker, traffic in brokers:
                taken = {"alone": traffic.run(options.seconds, options.interval_ms / 1000)}
                for kind, at, beside in (
                    (COLD, broker, "a cold reader"),
                    (ELSEWHERE, elsewhere, "one of another broker"),
                ):
                    big_log.drop_from_cache(source)
                    with reader(at, end, rates[kind][broker.name]):
                        taken[f"beside {beside}"] = traffic.run(options.seconds, options.interval_ms / 1000)
                big_log.read_first_segment(source)
                with reader(broker, warm_end, rates[WARM][broker.name], times=1 << 20):
                    taken["beside a reader of memory"] = traffic.run(options.seconds, options.interval_ms / 1000)
                for when, spent in taken.items():
                    for what in ("produce", "fetch"):
                        found[broker.name, what, when] += spent[what]
                read = ", ".join(f"{kind} {rates[kind][broker.name][-1]:.0f} MB/s" for kind in rates)
                print(f"{time.strftime('%X')} {broker.name} {read}", file=sys.stderr)
    show(found, rates, options.brokers)
    return findings(found, rates)


WHEN = {
    "alone": "alone",
    "beside a cold reader": "beside the cold reader",
    "beside one of another broker": "while the cold reader reads from another broker",
    "beside a reader of memory": "beside a reader of what is in memory",
}
"""The names of the table's rows in the results."""
READERS = {COLD: "the cold reader", WARM: "a reader of what is in memory"}


def findings(
    spent: Mapping[tuple[str, str, str], Sequence[float]], rates: Mapping[str, Mapping[str, Sequence[float]]]
) -> list[Finding]:
    """Turn what was measured into results: percentiles over the exchanges of all runs, and the readers' rates."""
    runs = min((len(taken) for taken in rates[COLD].values()), default=0)
    found: list[Finding] = []
    for what in ("produce", "fetch"):
        for when, title in WHEN.items():
            for label, at in (("p50", 499), ("p99", 989)):
                measured = {
                    name: [statistics.quantiles(taken, n=1000)[at]]
                    for (name, which, while_), taken in spent.items()
                    if (which, while_) == (what, when)
                }
                each = compared(f"{what} {label} {title}", "ms", measured, APACHE, better=LOWER)
                found += [replace(one, runs=runs) for one in each]
    for kind, title in READERS.items():
        found += compared(title, "GB/s", rates[kind], APACHE, scale=1e-3)
    return found


def show(
    found: dict[tuple[str, str, str], list[float]], rates: dict[str, dict[str, list[float]]], names: list[str]
) -> None:
    """Print the table, and the rates of the readers."""
    rows = []
    for (name, what, when), spent in sorted(found.items(), key=lambda item: (item[0][1], item[0][2], item[0][0])):
        cuts = statistics.quantiles(spent, n=1000)
        values = (cuts[499], cuts[989], cuts[998], max(spent))
        rows.append([f"{what}, {when}", name, *(f"{value:.2f}" for value in values), f"{len(spent):,}"])
    print(report.table(["", "broker", "p50 ms", "p99 ms", "p99.9 ms", "max ms", "exchanges"], rows))
    print()
    for kind, of in rates.items():
        print(f"the {kind} reader: " + ", ".join(f"{name} {report.median(of[name]):.0f} MB/s" for name in names))
    print(f"\n{report.machine()}")


if __name__ == "__main__":
    main()
