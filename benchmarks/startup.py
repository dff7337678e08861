"""Start to first answer, memory, idle CPU, and the latency of one record: kafkalog beside Apache Kafka.

Run from the repository: `python -m benchmarks.startup [--quick]`. As root it also measures starts with a cold page
cache (`/proc/sys/vm/drop_caches`; leave that out with `--warm-only`).

- Start: from starting the process to the first answer to ApiVersions and Metadata that lists the broker. Kafka's
  directory is formatted beforehand; kafkalog's is new. "1,000 partitions": the same on the directory of a broker that
  holds a topic of so many and was stopped cleanly.
- Memory: resident, of the process and its children, after ten quiet seconds: with nothing, then with 1,000 partitions.
- Idle CPU: what the process used in those seconds.
- Latency, from five seconds after the start on: one record of 100 bytes, Produce v7 over one socket in bytes made
  beforehand, the next one sent when the answer to the last is there; and through confluent-kafka, `linger.ms=0`, one
  record in flight.
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import struct
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import Producer

from benchmarks.peers import report
from benchmarks.peers.brokers import APACHE, OURS, PEERS, Broker, add_options, stop_when_told
from benchmarks.recording.findings import LOWER, Finding, compared
from kafkalog.protocol.codec import encode_request
from peers.brokers import kafka, probe
from peers.process import Process, free_port
from tests.support.kafkalog_broker import KafkalogBroker
from tests.support.wire import batch, produce_request, receive_frame

START_DEADLINE_S = 120.0
DROP_CACHES = Path("/proc/sys/vm/drop_caches")
PARTITIONS = 1000
QUIET_S = 10.0
QUICK_QUIET_S = 2.0
QUICK_PARTITIONS = 100
RECORDS = 10_000
WARM_UP = 5_000
PRODUCE_VERSION = 7

Results = dict[str, dict[str, list[float]]]


@contextmanager
def started(
    name: str, home: Path, overrides: Sequence[str], peer_config: Mapping[str, str] | None = None
) -> Iterator[tuple[Broker, float]]:
    """Start a broker on `home`, tell the seconds to its first answer, and stop it cleanly at the end.

    `overrides` are settings of ours, `peer_config` those of Apache Kafka.
    """
    home.mkdir(parents=True, exist_ok=True)
    if name == OURS:
        ours = KafkalogBroker(home, dict(item.split("=", 1) for item in overrides))
        ours.address = f"127.0.0.1:{free_port()}"
        command, bootstrap = ours.command(), ours.address
        began = time.perf_counter()
        process = Process(command, home / "broker.out")
    else:
        peer = kafka.ApacheKafka(PEERS[name], directory=home, config=peer_config)
        peer.prepare()
        bootstrap = peer.bootstrap
        began = time.perf_counter()
        peer.exec()
        process = peer.process
    with process:
        spent = probe.wait_for_answer(bootstrap, START_DEADLINE_S) - began
        yield Broker(name, bootstrap, process.pid), spent


def drop_page_cache() -> None:
    os.sync()
    DROP_CACHES.write_text("3\n")


def start_times(name: str, root: Path, options: argparse.Namespace, results: Results) -> None:
    kinds: list[tuple[str, Callable[[], None]]] = [("start, warm, s", lambda: None)]
    if not options.warm_only and os.access(DROP_CACHES, os.W_OK) and os.geteuid() == 0:
        kinds.append(("start, cold page cache, s", drop_page_cache))
    for what, before in kinds:
        for run in range(options.runs):
            home = root / f"{name.replace(' ', '-')}-{what.split()[1][:4]}-{run}"
            if name != OURS:
                home.mkdir()
                kafka.ApacheKafka(PEERS[name], directory=home).prepare()
            before()
            with started(name, home, options.override) as (_, spent):
                results[what][name].append(spent)


def sizes(name: str, home: Path, options: argparse.Namespace, results: Results) -> None:
    """Measure memory and CPU without and with partitions, and a start with them, which stay in `home`."""
    with started(name, home, options.override) as (broker, _):
        seconds = QUICK_QUIET_S if options.quick else QUIET_S
        quiet(broker, "idle", seconds, results)
        began = time.perf_counter()
        broker.create_topic("many", options.partitions)
        results[f"create {options.partitions:,} partitions, s"][name].append(time.perf_counter() - began)
        quiet(broker, f"{options.partitions:,} partitions", seconds, results)
    with started(name, home, options.override) as (_, spent):
        results[f"start, {options.partitions:,} partitions, s"][name].append(spent)


def quiet(broker: Broker, state: str, seconds: float, results: Results) -> None:
    """Wait for the end of the start's background work; then measure."""
    time.sleep(seconds)
    before = broker.cpu_seconds()
    time.sleep(seconds)
    results[f"CPU, {state}, % of a core"][broker.name].append((broker.cpu_seconds() - before) / seconds * 100)
    results[f"resident memory, {state}, MB"][broker.name].append(broker.resident_bytes() / 1e6)


def socket_latencies(broker: Broker, acks: int, records: int) -> list[float]:
    """Return the seconds of each exchange."""
    topic = f"latency-{acks}"
    broker.create_topic(topic, 1)
    request = produce_request(topic, {0: batch([b"x" * 100])}, acks=acks)
    frame = encode_request(request, PRODUCE_VERSION, 1, "latency")
    whole = bytes(frame) if isinstance(frame, bytes | bytearray) else b"".join(frame)
    # correlation, count, name, count, partition: then the error code
    error_at = 4 + 4 + 2 + len(topic) + 4 + 4
    spent: list[float] = []
    with probe.connect(broker.bootstrap, 10) as sock:
        end = time.monotonic() + START_DEADLINE_S
        while len(spent) < WARM_UP + records:
            began = time.perf_counter()
            sock.sendall(whole)
            answer = receive_frame(sock)
            ended = time.perf_counter()
            if not answer:
                raise ConnectionError(f"{broker.name} closed the connection")
            (error,) = struct.unpack_from(">h", answer, error_at)
            if error == 0:
                spent.append(ended - began)
            elif spent or time.monotonic() > end:  # at first the partition may not be led yet
                raise RuntimeError(f"{broker.name} answered error code {error}")
    held = broker.end_offsets(topic, 1)[0]
    if held != len(spent):
        raise RuntimeError(f"{broker.name} holds {held} records of {len(spent)}")
    return spent[WARM_UP:]


def client_latencies(broker: Broker, records: int) -> list[float]:
    """Return the seconds from produce() to the delivery report, through librdkafka."""
    topic = "latency-client"
    broker.create_topic(topic, 1)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "acks": 1, "linger.ms": 0, "log_level": 3})
    spent = []
    for _ in range(WARM_UP + records):
        began = time.perf_counter()
        producer.produce(topic, b"x" * 100)
        if producer.flush(30):
            raise TimeoutError(f"{broker.name} acknowledged nothing in 30 s")
        spent.append(time.perf_counter() - began)
    return spent[WARM_UP:]


def latencies(name: str, home: Path, options: argparse.Namespace, results: Results) -> None:
    records = RECORDS // 5 if options.quick else RECORDS
    with started(name, home, options.override) as (broker, _):
        time.sleep(QUIET_S / 2)  # past the background work of the start
        for what, spent in (
            ("one record, acks=1", socket_latencies(broker, 1, records)),
            ("one record, acks=all", socket_latencies(broker, -1, records)),
            ("one record, acks=1, confluent-kafka", client_latencies(broker, records)),
        ):
            cuts = statistics.quantiles(spent, n=1000)
            for label, value in (("p50", cuts[499]), ("p99", cuts[989]), ("p99.9", cuts[998])):
                results[f"{what}, {label}, us"][name].append(value * 1e6)


PARTS: dict[str, Callable[[str, Path, argparse.Namespace, Results], None]] = {
    "start": start_times,
    "sizes": sizes,
    "latency": latencies,
}


def arguments(words: Sequence[str] | None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--partitions", type=int, default=PARTITIONS)
    parser.add_argument("--warm-only", action="store_true", help="leave the kernel's page cache alone")
    options = parser.parse_args(words)
    if options.quick:
        options.runs, options.partitions = 1, min(options.partitions, QUICK_PARTITIONS)
    return options


def main(words: Sequence[str] | None = None) -> list[Finding]:
    """Measure and print one table. One broker runs at a time; repetitions go round the brokers; return the results."""
    stop_when_told()
    options = arguments(words)
    results: Results = defaultdict(lambda: defaultdict(list))
    with tempfile.TemporaryDirectory(prefix="kafkalog-bench-", dir=options.dir) as directory:
        for part in options.parts:
            # Start times are repeated inside, memory does not vary, latencies are percentiles of thousands.
            rounds = options.runs if part == "latency" else 1
            for run in range(rounds):
                for name in options.brokers:
                    home = Path(directory) / f"{part}-{run}-{name.replace(' ', '-')}"
                    home.mkdir()
                    PARTS[part](name, home, options, results)
                    print(f"{time.strftime('%X')} {part} {name}", file=sys.stderr, flush=True)
    rows = [
        report.compare(what, {n: found[n] for n in options.brokers}, ",.0f" if what.endswith(("us", "MB")) else ".2f")
        for what, found in results.items()
    ]
    print(report.table(report.header("", options.brokers), rows))
    print(f"\n{report.machine()}")
    return findings(results)


TITLES = (
    (re.compile(r"start, warm, s"), "start to the first answer", "s"),
    (re.compile(r"start, cold page cache, s"), "start to the first answer, cold page cache", "s"),
    (re.compile(r"start, ([\d,]+) partitions, s"), r"start with \1 partitions", "s"),
    (re.compile(r"create ([\d,]+) partitions, s"), r"create \1 partitions", "s"),
    (re.compile(r"resident memory, idle, MB"), "resident memory", "MB"),
    (re.compile(r"resident memory, ([\d,]+) partitions, MB"), r"resident memory with \1 partitions", "MB"),
    (re.compile(r"CPU, idle, % of a core"), "CPU of an idle broker", "% of a core"),
    (re.compile(r"CPU, ([\d,]+) partitions, % of a core"), r"CPU of an idle broker with \1 partitions", "% of a core"),
    (re.compile(r"(one record, .*), us"), r"\1", "µs"),
)
"""The rows of the table: how the results call each, and its unit."""


def findings(results: Mapping[str, Mapping[str, Sequence[float]]]) -> list[Finding]:
    """Turn what was measured into results."""
    found: list[Finding] = []
    for row, measured in results.items():
        title, unit = next((like.sub(name, row), unit) for like, name, unit in TITLES if like.fullmatch(row))
        found += compared(title, unit, measured, APACHE, better=LOWER)
    return found


if __name__ == "__main__":
    main()
