"""The first task where kafkalog never ran: nothing compiled, compiled ahead (`kafkalog spark warm`), and ran before.

Run from the repository: `python -m benchmarks.cold_executors [--quick] [--without-spark] [--without-levels]`.

- Workers: from the start of one Python process, or of four at once, to the last one's first decoded batch. That is
  what a Python worker of Spark does before its first row. Each run has a copy of the packages of its own, without a
  user's cache directory.
- Spark: the first query over a topic with a partition for each executor, in a Spark of its own with one or four
  executors that have run a query without Python (`local-cluster`); and the second query, which is the work itself.
- Kernels by processor: decode, encode and validate without codecs (`benchmarks.records`), with kernels that were
  compiled for each level of x86 and for this processor, in turns.
"""

from __future__ import annotations

import argparse
import compileall
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import geometric_mean

from benchmarks.peers import report
from benchmarks.recording.findings import HIGHER, LOWER, Finding, compared, rounded, several
from kafkalog.records.kernels.store import processors
from tests.spark_kafkalog.topics import Topics, numbers
from tests.support.kafkalog_broker import KafkalogBroker
from tests.support.wire import batch

ROOT = Path(__file__).parents[1]
PACKAGES = ("kafkalog", "spark_kafkalog", "pyspark_kafkalog")
CACHE = "kafkalog/records/kernels/cache"
NOTHING, AHEAD, BEFORE = "nothing compiled", "compiled ahead", "a machine that ran it before"
AT_ONCE = (1, 4)
RECORDS = 1000
DEADLINE_S = 600.0

_DECODE = """
import sys, time
from kafkalog.records.arrow import decode_arrow
with open(sys.argv[1], "rb") as file:
    data = file.read()
assert decode_arrow(data, topic="t", partition=0, start=0, end=1, columns=("value",))
print(time.monotonic())
"""
_SPEED = """
import sys
from kafkalog.records.kernels.store import processors
chosen = processors.named(sys.argv[1])
processors.usable = lambda: (chosen,)
processors.default = lambda: chosen
from contextlib import redirect_stdout
from benchmarks import records
from kafkalog.records import warm
from kafkalog.records.kernels import loader
warm.warm(loader.COMMON, chosen)
loader.load()
with redirect_stdout(sys.stderr):
    found = records.uncompressed(float(sys.argv[2]))
print(*(each.records_per_s for each in found))
"""

Times = dict[str, list[float]]


def install(directory: Path) -> Path:
    """Copy the packages with their byte code and without kernels, as pip leaves them; return their directory."""
    for name in PACKAGES:
        ignored = shutil.ignore_patterns("__pycache__", "cache")
        shutil.copytree(ROOT / name, directory / name, ignore=ignored)
    compileall.compile_dir(directory, quiet=2)
    return directory


def environment(site: Path) -> dict[str, str]:
    """Return an environment that imports the packages from `site` and has no directory for caches."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("NUMBA_", "KAFKALOG_", "XDG_", "SPARK_"))}
    return kept | {"PYTHONPATH": f"{site}{os.pathsep}{ROOT}", "HOME": "/dev/null"}


def compile_ahead(site: Path) -> float:
    """Compile all kernels into the packages at `site`; return the seconds that took."""
    began = time.monotonic()
    subprocess.run(
        [sys.executable, "-m", "kafkalog.records.warm"],
        env=environment(site),
        cwd=site,
        check=True,
        capture_output=True,
        timeout=DEADLINE_S,
    )
    return time.monotonic() - began


def first_batches(site: Path, data: Path, count: int) -> float:
    """Start so many processes; return the seconds until the last has decoded a batch."""
    began = time.monotonic()
    command = [sys.executable, "-c", _DECODE, str(data)]
    started = [
        subprocess.Popen(command, env=environment(site), cwd=site, stdout=subprocess.PIPE, text=True)
        for _ in range(count)
    ]
    return max(float(each.communicate(timeout=DEADLINE_S)[0]) for each in started) - began


def processes(directory: Path, runs: int) -> dict[int, Times]:
    """Measure processes, by how many start at once."""
    data = directory / "batch"
    data.write_bytes(batch([b"x" * 100]))
    found: dict[int, Times] = {}
    for count in AT_ONCE:
        times: Times = defaultdict(list)
        for run in range(runs):
            site = install(directory / f"site-{count}-{run}")
            times[NOTHING].append(first_batches(site, data, count))
            times[BEFORE].append(first_batches(site, data, count))
            ahead = install(directory / f"ahead-{count}-{run}")
            times["warm"].append(compile_ahead(ahead))
            times[AHEAD].append(first_batches(ahead, data, count))
        found[count] = times
        print(f"{several(count, 'worker')} {dict(times)}", file=sys.stderr, flush=True)
    return found


def queries(directory: Path, runs: int) -> dict[int, Times]:
    """Measure Spark's first query and its second, by the number of executors."""
    found: dict[int, Times] = {}
    with KafkalogBroker(directory / "broker") as broker:
        topics = Topics(broker.bootstrap)
        for count in AT_ONCE:
            topic = topics.create("cold", count)
            for partition in range(count):
                topics.produce(topic, numbers(RECORDS), partition)
            times: Times = defaultdict(list)
            for run in range(runs):
                site = install(directory / f"spark-{count}-{run}")
                ahead = install(directory / f"spark-ahead-{count}-{run}")
                compile_ahead(ahead)
                for state, place in ((NOTHING, site), (BEFORE, site), (AHEAD, ahead)):
                    first, second = spark_times(place, directory, broker.bootstrap, topic, count)
                    times[state].append(first)
                    times[f"{state}, second"].append(second)
            found[count] = times
            print(f"{several(count, 'executor')} {dict(times)}", file=sys.stderr, flush=True)
    return found


def spark_times(site: Path, directory: Path, bootstrap: str, topic: str, executors: int) -> tuple[float, float]:
    """Start a Spark and return the seconds of its first and its second query."""
    own = Path(tempfile.mkdtemp(dir=directory))
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.jobs.cold_executors", str(own), bootstrap, topic, str(executors)],
        env=environment(site),
        cwd=own,
        check=False,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
    )
    if done.returncode:
        raise RuntimeError(f"Spark ended with {done.returncode}: {done.stderr[-3000:]}")
    first, second = json.loads(done.stdout.splitlines()[-1])
    return first, second


def speeds(directory: Path, rounds: int, seconds: float) -> dict[str, float]:
    """Return how fast kernels for each level are: the mean over cases of the best round, this processor's being 1."""
    labels = ["native", *(each.label for each in processors.levels())]
    best: dict[str, list[float]] = {}
    site = install(directory / "levels")
    for _ in range(rounds):
        for label in labels:
            done = subprocess.run(
                [sys.executable, "-c", _SPEED, label, str(seconds)],
                env=environment(site),
                cwd=site,
                check=True,
                capture_output=True,
                text=True,
                timeout=DEADLINE_S,
            )
            rates = [float(each) for each in done.stdout.split()]
            best[label] = [max(pair) for pair in zip(best.get(label, rates), rates, strict=True)]
    ours = best["native"]
    return {
        label: geometric_mean(mine / native for mine, native in zip(rates, ours, strict=True))
        for label, rates in best.items()
        if label != "native"
    }


def findings(
    by_processes: Mapping[int, Mapping[str, Sequence[float]]],
    by_executors: Mapping[int, Mapping[str, Sequence[float]]],
    by_level: Mapping[str, float],
) -> list[Finding]:
    """Turn what was measured into results."""
    peers = {NOTHING: NOTHING, BEFORE: BEFORE}
    found: list[Finding] = []
    for count, times in by_processes.items():
        title = f"first batch, {several(count, 'worker')}"
        found += compared(title, "s", times, peers, ours=AHEAD, better=LOWER)
    for count, times in by_executors.items():
        title = f"first query, {several(count, 'executor')}"
        found += compared(title, "s", times, peers, ours=AHEAD, better=LOWER)
    for level, ratio in by_level.items():
        found.append(
            Finding(
                name=f"speed of kernels for {level}",
                unit="of this processor's own",
                ours=rounded(ratio),
                better=HIGHER,
            )
        )
    return found


def main(words: Sequence[str] | None = None) -> list[Finding]:
    """Measure and print tables; return the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--runs", type=int, default=3, help="runs of each case (default 3)")
    parser.add_argument("--quick", action="store_true", help="one run of each")
    parser.add_argument("--without-spark", action="store_true", help="leave Spark out")
    parser.add_argument("--without-levels", action="store_true", help="leave out kernels by processor")
    options = parser.parse_args(words)
    runs = 1 if options.quick else options.runs
    with tempfile.TemporaryDirectory(prefix="cold-executors-") as name:
        directory = Path(name)
        by_processes = processes(directory, runs)
        by_executors = {} if options.without_spark else queries(directory, runs)
        by_level = {} if options.without_levels else speeds(directory, 1 if options.quick else 5, 0.1)
    for what, measured in (("first batch", by_processes), ("first query", by_executors)):
        states = list(dict.fromkeys(state for times in measured.values() for state in times))
        rows = [[state, *(f"{report.median(measured[count][state]):.1f}" for count in measured)] for state in states]
        print(report.table([f"{what}, s", *(f"{count} at once" for count in measured)], rows))
    if by_level:
        print(report.table(["kernels for", "speed"], [[level, f"{ratio:.2f}"] for level, ratio in by_level.items()]))
    print(f"\n{report.machine()}")
    return findings(by_processes, by_executors, by_level)


if __name__ == "__main__":
    main()
