"""Records a second through the record kernels, on one core: `python -m benchmarks.records`.

The records are those of Kafka's own perf tools: 100-byte values, no keys, no headers. Time is the process's CPU time,
the least of several runs, so that other processes on the machine do not count. A decode reads fetches of 2 MiB to the
columns named; an encode takes Arrow columns to batches; a validation is what the broker does with a produced batch.

For each codec a decode is compared with the library doing nothing but decompress the same batches, by its own call for
a whole section, an encode with nothing but compressing them; the two take turns. The ratio says how much of the codec's
own speed is left. Values are words here, which compress about as well as JSON does.
"""

from __future__ import annotations

import argparse
import random
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import cramjam
import lz4.frame
import pyarrow as pa

from benchmarks.recording.findings import HIGHER, OURS, Finding, compared, rounded, spanned
from kafkalog.records.arrow import decode_arrow, encode_arrow
from kafkalog.records.batch import HEADER_SIZE, assign_offsets, iter_headers, read_header
from kafkalog.records.compression import Codec, compress, decompress
from kafkalog.records.kernels import loader
from kafkalog.records.validate import check_batch
from spark_kafkalog.executor.allocator import keep_freed_memory

VALUE_BYTES = 100
FETCH_BYTES = 2 << 20
BATCHES = {16 << 10: "16 KiB", 1 << 20: "1 MiB"}
CODECS = list(Codec)[1:]
START_MS = 1_700_000_000_000
COLUMNS = {
    "all columns but headers": ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType"),
    "all columns": ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers"),
    "value": ("value",),
    "offset": ("offset",),
}
TARGETS = {"decode": 15e6, "encode": 8e6, "validate": 20e6}


def cpu_seconds(seconds: float, *works: Callable[[], object]) -> list[float]:
    """Return the least CPU time of a call of each of `works`, which take turns for that many seconds each."""
    best = [float("inf")] * len(works)
    for work in works:
        work()
    until = time.process_time() + seconds * len(works)
    while time.process_time() < until:
        for index, work in enumerate(works):
            started = time.process_time()
            work()
            best[index] = min(best[index], time.process_time() - started)
    return best


def words(count: int, size: int) -> list[bytes]:
    """Make values of that size out of words, each another."""
    chooser = random.Random(7)
    vocabulary = ["".join(chooser.choices("abcdefghijklmnopqrstuvwxyz", k=chooser.randint(3, 9))) for _ in range(2000)]
    text = " ".join(chooser.choices(vocabulary, k=count * size // 4)).encode()
    return [text[at * size : (at + 1) * size] for at in range(count)]


def xerial_blocks(sections: list[bytes]) -> Iterator[bytes]:
    """Yield the raw blocks of snappy in Kafka's framing: a header of 16 bytes, then lengths and blocks."""
    for section in sections:
        at = 16
        while at < len(section):
            size = int.from_bytes(section[at : at + 4], "big")
            yield section[at + 4 : at + 4 + size]
            at += 4 + size


class Workload:
    """As many records as one fetch holds, as Arrow columns and as batches."""

    def __init__(self, batch_bytes: int, codec: Codec) -> None:
        self.codec = codec
        self.batch_bytes = batch_bytes
        self.rows = FETCH_BYTES // (VALUE_BYTES + 10)
        self.values = pa.array(words(self.rows, VALUE_BYTES), pa.binary())
        self.timestamps = pa.array(range(START_MS, START_MS + self.rows), pa.int64())
        self.batches = self.encode()
        offset = 0
        for batch in self.batches:
            assign_offsets(batch, 0, offset, 0)
            offset = read_header(batch).next_offset
        self.fetched = b"".join(self.batches)
        self.sections = [self.fetched[pos + HEADER_SIZE : pos + h.size] for pos, h in iter_headers(self.fetched)]
        self.plain = [bytes(decompress(codec, section)) for section in self.sections]
        self.size = sum(map(len, self.plain))
        self.blocks = list(xerial_blocks(self.sections)) if codec == Codec.SNAPPY else []

    def encode(self) -> list[bytearray]:
        return encode_arrow(None, self.values, self.timestamps, codec=self.codec, max_batch_bytes=self.batch_bytes)

    def decode(self, columns: tuple[str, ...]) -> None:
        batch, _ = decode_arrow(self.fetched, topic="t", partition=0, start=0, end=self.rows, columns=columns)
        if batch is None or batch.num_rows != self.rows:
            raise AssertionError("records were lost")

    def validate(self) -> None:
        for batch in self.batches:
            check_batch(batch)

    def decompress(self) -> None:
        """Call the library for each whole section, or for each block where Kafka frames blocks in a section."""
        if self.codec == Codec.GZIP:
            for section in self.sections:
                zlib.decompress(section, 31)
        elif self.codec == Codec.SNAPPY:
            for block in self.blocks:
                cramjam.snappy.decompress_raw(block)
        elif self.codec == Codec.LZ4:
            for section in self.sections:
                lz4.frame.decompress(section)
        else:
            for section in self.sections:
                cramjam.zstd.decompress(section)

    def compress(self) -> None:
        for section in self.plain:
            compress(self.codec, section)


def row(*cells: Any) -> None:
    print("| " + " | ".join(str(cell) for cell in cells) + " |")


def table(*names: str) -> None:
    print()
    row(*names)
    row(*("---" for _ in names))


class Plain(NamedTuple):
    """A measurement of uncompressed batches."""

    batch_bytes: int
    what: str
    records_per_s: float
    mb_per_s: float


class Coded(NamedTuple):
    """A measurement of compressed batches; MB/s are of the uncompressed records."""

    batch_bytes: int
    codec: str
    direction: str
    records_per_s: float
    mb_per_s: float
    codec_alone_mb_per_s: float


def uncompressed(seconds: float) -> list[Plain]:
    """Measure batches without compression, and print a table."""
    found = []
    table("batches", "what", "records/s", "MB/s", "ns a record", "target")
    for batch_bytes in BATCHES:
        work = Workload(batch_bytes, Codec.NONE)
        cases: list[tuple[str, Callable[[], object], float]] = [
            (f"decode, {name}", partial(work.decode, columns), TARGETS["decode"]) for name, columns in COLUMNS.items()
        ]
        cases += [("encode", work.encode, TARGETS["encode"]), ("validate", work.validate, TARGETS["validate"])]
        for name, call, target in cases:
            (spent,) = cpu_seconds(seconds, call)
            made = Plain(batch_bytes, name, work.rows / spent, work.size / spent / 1e6)
            found.append(made)
            row(
                BATCHES[batch_bytes],
                name,
                f"{made.records_per_s / 1e6:.1f} M",
                f"{made.mb_per_s:.0f}",
                f"{1e9 / made.records_per_s:.1f}",
                f"{target / 1e6:.0f} M {'met' if made.records_per_s >= target else 'MISSED'}",
            )
    return found


def compressed(seconds: float) -> list[Coded]:
    """Measure batches of every codec beside the codec alone, and print a table."""
    found = []
    table("batches", "codec", "direction", "records/s", "MB/s", "codec alone MB/s", "ratio", "target 60 %")
    columns = COLUMNS["all columns but headers"]
    for batch_bytes in BATCHES:
        for codec in CODECS:
            work = Workload(batch_bytes, codec)
            pairs: list[tuple[str, Callable[[], object], Callable[[], object]]] = [
                ("decode", partial(work.decode, columns), work.decompress),
                ("encode", work.encode, work.compress),
            ]
            for name, call, alone in pairs:
                spent, least = cpu_seconds(seconds, call, alone)
                ratio = least / spent
                rates = work.rows / spent, work.size / spent / 1e6, work.size / least / 1e6
                made = Coded(batch_bytes, codec.name.lower(), name, *rates)
                found.append(made)
                row(
                    BATCHES[batch_bytes],
                    made.codec,
                    name,
                    f"{made.records_per_s / 1e6:.2f} M",
                    f"{made.mb_per_s:.0f}",
                    f"{made.codec_alone_mb_per_s:.0f}",
                    f"{ratio:.0%}",
                    "met" if ratio >= 0.6 else "MISSED",
                )
    return found


def findings(plain: Sequence[Plain], coded: Sequence[Coded]) -> list[Finding]:
    """Turn what was measured into results: the span of each kind of work, then its cases."""
    alone = {"codec": "the codec alone"}
    each_plain = [
        (
            one.what,
            Finding(
                name=f"{one.what.replace('decode', 'decode to Arrow')}, batches of {BATCHES[one.batch_bytes]}",
                unit="records/s",
                better=HIGHER,
                ours=rounded(one.records_per_s),
            ),
        )
        for one in plain
    ]
    each_coded = []
    for made in coded:
        figures = {OURS: [made.mb_per_s], "codec": [made.codec_alone_mb_per_s]}
        name = f"{made.direction} {made.codec}, batches of {BATCHES[made.batch_bytes]}"
        # The least of several runs is no median.
        each_coded += [(made.direction, replace(one, runs=None)) for one in compared(name, "MB/s", figures, alone)]
    found: list[Finding] = []
    for what, title in (("decode", "decode to Arrow, 100 B"), ("encode", "encode"), ("validate", "validate")):
        found += spanned(title, [one for name, one in each_plain if name.split(",")[0] == what])
    for direction in ("decode", "encode"):
        title = f"{direction} lz4, snappy, zstd and gzip in batches of 16 KiB and 1 MiB"
        found += spanned(title, [one for name, one in each_coded if name == direction])
    return found + [one for _, one in (*each_plain, *each_coded)]


def main(words: Sequence[str] | None = None) -> list[Finding]:
    """Measure and print two tables; return the results."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--seconds", type=float, default=0.5, help="CPU seconds for each measurement (default 0.5)")
    parser.add_argument("--quick", action="store_true", help="a tenth of the seconds: a look, not a measurement")
    options = parser.parse_args(words)
    seconds = options.seconds / 10 if options.quick else options.seconds
    loader.load()
    keep_freed_memory(256 << 20)  # as option keepFreedMemory has Spark's workers do; the codecs alone gain as well
    print(f"{VALUE_BYTES}-byte values, fetches of {FETCH_BYTES >> 20} MiB, one core, CPU time")
    return findings(uncompressed(seconds), compressed(seconds))


if __name__ == "__main__":
    main()
