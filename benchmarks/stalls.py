"""The time for which one large request keeps everybody else waiting.

Run from the repository: `python -m benchmarks.stalls [--only NAME ...] [--scale 0.1] [--source DIRECTORY]`.

For each request a broker is started, and one connection sends it while another, idle otherwise, asks for Metadata again
and again. The table tells the longest time that the probe waited for an answer, how large the request and its answer
are, how long it took, and the broker's largest resident memory. Its first row is what the probe waits beside nothing:
where the machine is busy with other things, the rest is no better than that. `--source` runs the broker of another
checkout, to compare with; `--scale` makes the requests smaller.
"""

from __future__ import annotations

import argparse
import socket
import struct
import tempfile
import threading
import time
import uuid
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from benchmarks.peers import report
from benchmarks.peers.brokers import stop_when_told
from benchmarks.recording.findings import LOWER, Finding, rounded
from benchmarks.requests.cases import CASES, LIMIT_S, PARTITIONS, TOPIC, Case
from benchmarks.requests.groups import GROUP_CASES
from kafkalog.protocol.messages.metadata import MetadataRequest
from tests.support.kafkalog_broker import KafkalogBroker
from tests.support.wire import create_topic, exchange

PROBE_PAUSE_S = 0.002
QUIET_S = 10.0
"""The time for which the probe asks beside nothing."""


class Probe:
    """Asks for Metadata again and again on a connection of its own."""

    def __init__(self, broker: KafkalogBroker) -> None:
        self._sock = broker.connect()
        self._sock.settimeout(LIMIT_S)
        self._stop = threading.Event()
        self.longest = 0.0
        self.failed: Exception | None = None
        exchange(self._sock, MetadataRequest(topics=[]), 12)
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                began = time.perf_counter()
                exchange(self._sock, MetadataRequest(topics=[]), 12)
                self.longest = max(self.longest, time.perf_counter() - began)
                time.sleep(PROBE_PAUSE_S)
        except (OSError, AssertionError) as error:
            self.failed = error

    def stop(self) -> float:
        self._stop.set()
        self._thread.join()
        self._sock.close()
        return self.longest


def drain(sock: socket.socket) -> int:
    """Receive one response without keeping it; its size, 0 where the connection was closed instead."""
    room = memoryview(bytearray(1 << 20))
    try:
        if sock.recv_into(room[:4], 4, socket.MSG_WAITALL) < 4:
            return 0
        (size,) = struct.unpack_from(">i", room)
        left = size
        while left:
            got = sock.recv_into(room[: min(left, len(room))])
            if not got:
                return 0
            left -= got
    except (ConnectionError, TimeoutError):
        return 0
    return int(size)


def peak_memory(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))


class Measured(NamedTuple):
    """The effect of one request on the probe and on the broker."""

    name: str
    request_bytes: int
    longest_s: float
    died: bool
    took_s: float
    answer_bytes: int | None
    """None where a connection was closed instead of answered."""
    memory_bytes: int

    def row(self) -> list[str]:
        """Show it as a row of the table."""
        return [
            self.name,
            f"{self.request_bytes / 1e6:.2f}",
            f"{self.longest_s * 1000:,.0f}" + (" (broker died)" if self.died else ""),
            f"{self.took_s:.1f}",
            "closed" if self.answer_bytes is None else f"{self.answer_bytes / 1e6:.1f}",
            f"{self.memory_bytes / 1e6:,.0f}",
        ]


def measure(case: Case, scale: float, source: Path | None, home: Path) -> Measured:
    """Send the request of a case to a broker of its own, with a probe beside it."""
    data = case.make(scale)
    broker = KafkalogBroker(home / uuid.uuid4().hex)
    if source is not None:
        # Python looks into the directory that it is started in before anything else.
        broker.prefix = ["env", f"--chdir={source}", f"PYTHONPATH={source}"]
    with broker, ExitStack() as stack:
        with broker.connect() as setup:
            create_topic(setup, TOPIC, PARTITIONS)
        case.prepare(broker, scale)
        time.sleep(3)  # for what the broker does after its start
        probe = Probe(broker)
        senders = [stack.enter_context(broker.connect()) for _ in range(case.connections)]
        for sock in senders:
            sock.settimeout(LIMIT_S)
        began = time.perf_counter()
        sizes: list[int] = []

        def send(sock: socket.socket) -> None:
            if not data:
                time.sleep(QUIET_S)
                return
            try:
                sock.sendall(data)
            except OSError:
                sizes.append(0)
                return
            sizes.append(drain(sock))

        threads = [threading.Thread(target=send, args=(sock,)) for sock in senders]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        took = time.perf_counter() - began
        time.sleep(1)  # for what a response leaves behind
        alive = broker.running
        memory = peak_memory(broker.pid) if alive else 0
        longest = probe.stop()
    died = not alive or probe.failed is not None
    answer = max(sizes, default=0) if all(sizes) else None
    return Measured(case.name, len(data), longest, died, took, answer, memory)


def arguments(words: Sequence[str] | None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", default=[], help="cases whose name contains one of these")
    parser.add_argument("--scale", type=float, default=1.0, help="of the number of entries")
    parser.add_argument("--source", type=Path, help="a checkout whose broker is run (default: this one's)")
    parser.add_argument("--dir", type=Path, help="where the data lies (default: a temporary directory)")
    return parser.parse_args(words)


def main(words: Sequence[str] | None = None) -> list[Finding]:
    """Measure and print a table; return the results."""
    stop_when_told()
    options = arguments(words)
    measured = []
    with tempfile.TemporaryDirectory(prefix="kafkalog-bench-", dir=options.dir) as directory:
        for case in [Case("nothing", lambda scale: b""), *CASES, *GROUP_CASES]:
            if options.only and not any(part.lower() in case.name.lower() for part in options.only):
                continue
            source = None if options.source is None else options.source.resolve()
            made = measure(case, options.scale, source, Path(directory))
            print("  ".join(made.row()), flush=True)
            measured.append(made)
    header = ["request", "MB", "probe's longest wait, ms", "took s", "answer MB", "RSS MB"]
    print(report.table(header, [made.row() for made in measured]))
    return findings(measured)


def findings(measured: Sequence[Measured]) -> list[Finding]:
    """Turn what was measured into results; a broker that died has none."""
    found: list[Finding] = []
    for made in measured:
        if made.died:
            continue
        for what, unit, figure in (
            ("a probe's longest wait", "ms", made.longest_s * 1000),
            ("time to the answer", "s", made.took_s),
            ("largest resident memory", "MB", made.memory_bytes / 1e6),
        ):
            name = f"{made.name}: {what}"
            found.append(Finding(name=name, unit=unit, better=LOWER, ours=rounded(figure), runs=1))
    return found


if __name__ == "__main__":
    main()
