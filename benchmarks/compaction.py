"""The speed of compaction: kafkalog's cleaner beside Apache Kafka's, on the same data.

Run from the repository: `python -m benchmarks.compaction [--quick]`. Five minutes at most, for each contestant is
waited for no longer than its share of what is left of them, `DEADLINE_S`, and what it has not said by then is missing
from the table.

One partition is written once: records with a key of 16 bytes, drawn evenly from a number of keys, and a value of 100
bytes, in batches of 16 KiB and segments of 64 MiB. Each broker is then started on a copy of it that was never cleaned,
with one cleaner thread and otherwise the defaults of its distribution, in turns. Both say in their log how much they
cleaned and how long it took, from the first key taken into the map to the last segment put in place: these are the
figures. What is left must be the same number of records. CPU seconds are the process's, from its start until it has
said so, without those that a start of the same broker takes that has no such partition.
"""

from __future__ import annotations

import argparse
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import NamedTuple
from unittest import mock

import numpy as np
import psutil  # type: ignore[import-untyped]
import pyarrow as pa

from benchmarks.peers import report
from benchmarks.peers.brokers import APACHE, OURS, stop_when_told
from benchmarks.recording.findings import LOWER, Finding, compared
from broker.log.log import Log
from broker.log.log_config import LogConfig
from kafkalog.records.arrow import encode_arrow
from kafkalog.records.compression import Codec
from peers.brokers import kafka
from peers.clients.confluent import ConfluentClient
from tests.support.kafkalog_broker import KafkalogBroker

TOPIC = "compacted"
KEY_BYTES = 16
VALUE_BYTES = 100
BATCH_BYTES = 16 << 10
SEGMENT_BYTES = 64 << 20
CHUNK = 200_000
DEADLINE_S = 300.0
"""For everything together."""
NOW_MS = 1_700_000_000_000
PEERS = {f"Kafka {version}": version for version in kafka.VERSIONS}
NAMES = (OURS, *PEERS)

OUR_LINE = re.compile(
    rf"cleaned log {TOPIC}-0 .*?: ([\d.]+) MB of log processed in ([\d.]+) seconds "
    r".*?; ([\d.]+) MB and (\d+) records left"
)
KAFKA_LINE = re.compile(
    rf"cleaned log {TOPIC}-0 .*?([\d.,]+) MB of log processed in ([\d.,]+) seconds"
    r".*?End size: ([\d.,]+) MB \(([\d,]+) messages\)",
    re.S,
)


class Cleaned(NamedTuple):
    """The figures of a cleaning that a broker reports, and its CPU time."""

    megabytes: float
    seconds: float
    megabytes_left: float
    records_left: int
    cpu_seconds: float


class OutOfTimeError(Exception):
    """No time is left for another run."""


def write_partition(directory: Path, records: int, keys: int, codec: Codec) -> int:
    """Make a partition's directory that was never cleaned, and return the bytes of its log."""
    config = LogConfig(segment_bytes=SEGMENT_BYTES, cleanup_policy=("compact",))
    directory.mkdir(parents=True, exist_ok=True)
    log = Log.open(directory / f"{TOPIC}-0", config, clean=False, now_ms=NOW_MS)
    random = np.random.default_rng(1)
    for start in range(0, records, CHUNK):
        count = min(CHUNK, records - start)
        names = np.char.encode(np.char.mod(f"%0{KEY_BYTES}d", random.integers(0, keys, count)))
        starts = np.arange(0, (count + 1) * VALUE_BYTES, VALUE_BYTES, dtype=np.int32)
        filler = random.integers(97, 105, (count, VALUE_BYTES), np.uint8).tobytes()
        values = pa.Array.from_buffers(pa.binary(), count, [None, pa.py_buffer(starts), pa.py_buffer(filler)])
        for batch in encode_arrow(
            pa.array(names.tolist(), pa.binary()), values, NOW_MS, codec=codec, max_batch_bytes=BATCH_BYTES
        ):
            log.append_batch(memoryview(batch), leader_epoch=0, now_ms=NOW_MS)
    log.roll(NOW_MS)
    size = log.size
    log.close()
    return size


def copy_partition(source: Path, target: Path) -> None:
    """Put the files of `source` in the place of those of `target`, but for the topic's identity."""
    for file in target.iterdir():
        if file.name != "partition.metadata":
            file.unlink()
    for file in source.iterdir():
        if file.name != "partition.metadata":
            shutil.copy(file, target / file.name)


def number(text: str) -> float:
    return float(text.replace(",", ""))


def cpu_seconds(pid: int) -> float:
    times = psutil.Process(pid).cpu_times()
    return float(times.user + times.system)


def wait_for(path: Path, line: re.Pattern[str], pid: int, start_cpu: float, end: float) -> Cleaned:
    """Wait for the first line in the file that matches, and return what it says.

    Raises:
        OutOfTimeError: There is none by `end`, on the monotonic clock.
    """
    while True:
        found = line.search(path.read_text(errors="replace"))
        if found is not None:
            spent = max(cpu_seconds(pid) - start_cpu, 0.0)
            return Cleaned(number(found[1]), number(found[2]), number(found[3]), int(number(found[4])), spent)
        if time.monotonic() > end:
            raise OutOfTimeError(f"{path.parent.name}: no cleaning was told of in time")
        if not psutil.pid_exists(pid):
            raise RuntimeError(f"the broker has ended; see {path}")
        time.sleep(0.1)


def ours(source: Path, home: Path, overrides: Sequence[str], end: float) -> Cleaned:
    """Start kafkalog on a copy of the partition, and see it cleaned."""
    settings = {"log.cleanup.policy": "compact", "log.segment.bytes": str(SEGMENT_BYTES), "log.cleaner.threads": "1"}
    settings |= dict(item.split("=", 1) for item in overrides)
    # Apart, for a broker takes over the partitions that it finds when it starts for the first time.
    empty = home / "empty"
    empty.mkdir(parents=True)
    with KafkalogBroker(empty, settings) as broker:
        start_cpu = cpu_seconds(broker.pid)
    broker = KafkalogBroker(home, settings)
    shutil.copytree(source, broker.log_dir / f"{TOPIC}-0")
    with broker:
        return wait_for(broker.output, OUR_LINE, broker.pid, start_cpu, end)


def theirs(version: str, source: Path, home: Path, end: float) -> Cleaned:
    """Do the same with Apache Kafka, whose topic has to be made before the partition takes its place."""
    settings = {"log.cleanup.policy": "compact", "log.segment.bytes": str(SEGMENT_BYTES), "log.cleaner.threads": "1"}
    home.mkdir(parents=True)
    peer = kafka.ApacheKafka(version, directory=home, config=settings)
    # What the log cleaner does is said at INFO.
    with (
        mock.patch.object(kafka, "_RELOAD4J", kafka._RELOAD4J.replace("WARN", "INFO")),
        mock.patch.object(kafka, "_LOG4J2", kafka._LOG4J2.replace("level=warn", "level=info")),
    ):
        with peer, closing(ConfluentClient(peer.bootstrap)) as client:
            client.create_topic(TOPIC)
            start_cpu = cpu_seconds(peer.pid)
        copy_partition(source, peer.log_dir / f"{TOPIC}-0")
        with peer:
            return wait_for(peer.log, KAFKA_LINE, peer.pid, start_cpu, end)


def main(words: Sequence[str] | None = None) -> list[Finding]:
    """Measure and print a table; return the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--brokers", nargs="+", default=[OURS, f"Kafka {kafka.KAFKA_3}"], choices=NAMES, metavar="NAME")
    parser.add_argument("--records", type=int, default=2_000_000)
    parser.add_argument("--keys", type=int, default=300_000)
    parser.add_argument("--codecs", nargs="+", default=["none", "lz4"], choices=[codec.name.lower() for codec in Codec])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--dir", type=Path, help="where the logs are (default: a temporary directory)")
    parser.add_argument("--override", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--quick", action="store_true", help="one run of fewer records: a look, not a measurement")
    options = parser.parse_args(words)
    if options.quick:
        options.records, options.keys, options.runs = options.records // 4, options.keys // 4, 1
    stop_when_told()
    root = Path(tempfile.mkdtemp(prefix="kafkalog-bench-", dir=options.dir))
    try:
        sources, found = measure(root, options)
    finally:
        shutil.rmtree(root, ignore_errors=True)
    rows = []
    for codec, size in sources.items():
        results = found[codec]
        left = {name: {made.records_left for made in several} for name, several in results.items()}
        if len(set().union(*left.values())) > 1:
            print(f"records left differ: {left}")
        rows += table_rows(codec, size, options.records, results)
    print(report.machine())
    runs = {len(several) for results in found.values() for several in results.values()}
    print(f"{options.records:,} records, {options.keys:,} keys, {min(runs)} to {max(runs)} runs in turns, medians")
    print(report.table(report.header("compaction, one thread", options.brokers), rows))
    return findings(found, options.records)


def findings(results: Mapping[str, Mapping[str, Sequence[Cleaned]]], records: int) -> list[Finding]:
    """Turn what was measured into results, by codec."""
    found: list[Finding] = []
    for codec, measured in results.items():
        title = "plain" if codec == "none" else codec
        rates = {name: [records / made.seconds for made in taken] for name, taken in measured.items()}
        costs = {name: [made.cpu_seconds / records * 1e6 for made in taken] for name, taken in measured.items()}
        found += compared(title, "records/s", rates, APACHE)
        found += compared(f"{title}: broker CPU for a million records", "s", costs, APACHE, better=LOWER)
    return found


def measure(root: Path, options: argparse.Namespace) -> tuple[dict[str, int], dict[str, dict[str, list[Cleaned]]]]:
    """Return the size of each codec's partition, and what each broker made of it, as often as there was time."""
    end = time.monotonic() + DEADLINE_S
    sizes = {
        codec: write_partition(root / codec, options.records, options.keys, Codec[codec.upper()])
        for codec in options.codecs
    }
    found: dict[str, dict[str, list[Cleaned]]] = {
        codec: {name: [] for name in options.brokers} for codec in options.codecs
    }
    rounds = [(codec, name) for codec in options.codecs for name in options.brokers]
    longest = 0.0
    for run in range(options.runs):
        for at, (codec, name) in enumerate(rounds):
            began = time.monotonic()
            if run and began + longest > end:
                print(f"no time is left for run {run + 1} of {name}, {codec}")
                continue
            # In the first run each of those to come has the same share of what is left.
            share = end if run else began + (end - began) / (len(rounds) - at)
            home = root / f"{codec}-{run}-{name.replace(' ', '-')}"
            partition = root / codec / f"{TOPIC}-0"
            try:
                made = (
                    ours(partition, home, options.override, share)
                    if name == OURS
                    else theirs(PEERS[name], partition, home, share)
                )
            except OutOfTimeError as error:
                print(error)
            else:
                found[codec][name].append(made)
            shutil.rmtree(home, ignore_errors=True)
            longest = max(longest, time.monotonic() - began)
    return sizes, found


def table_rows(codec: str, size: int, records: int, results: dict[str, list[Cleaned]]) -> list[list[str]]:
    """Make the rows: throughput by bytes of the log and by records, seconds, and CPU seconds."""

    def of(value: Callable[[Cleaned], float]) -> dict[str, list[float]]:
        return {name: [value(made) for made in several] for name, several in results.items()}

    return [
        report.compare(f"{codec}, {size >> 20} MB, MB/s", of(lambda made: made.megabytes / made.seconds), ",.0f"),
        report.compare(f"{codec}, thousand records/s", of(lambda made: records / made.seconds / 1000), ",.0f"),
        report.compare(f"{codec}, s", of(lambda made: made.seconds), ".2f"),
        report.compare(f"{codec}, CPU s", of(lambda made: made.cpu_seconds), ".2f"),
    ]


if __name__ == "__main__":
    main()
