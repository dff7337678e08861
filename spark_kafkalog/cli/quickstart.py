"""`kafkalog quickstart`: the main job on this machine, from text to Parquet, with nothing to prepare.

A broker process, a topic, a producer that sends the lines of a real file, and a Spark query that streams them into
Parquet meanwhile. Afterwards the Parquet files are compared with what was acknowledged: each offset must be there
once. `--kill-broker` kills the broker (SIGKILL) on the way and starts it again; the outcome must be the same.
"""

from __future__ import annotations

import argparse
import signal
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from spark_kafkalog.cli.local_broker import LocalBroker

EXAMPLES = """\
examples:
  kafkalog quickstart
  kafkalog quickstart /var/log/syslog
  kafkalog quickstart --kill-broker --partitions 8 access.log

The log, the Parquet files and the checkpoint stay in the directory that is printed at the end.
"""
TOPIC = "quickstart"
PROGRESS_SECONDS = 0.5
LOGGED_PROGRESS_SECONDS = 5.0


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `quickstart`."""
    parser = subparsers.add_parser(
        "quickstart",
        help="broker, topic, real input and Spark into Parquet, on this machine",
        description="Start a broker, send it the lines of a real file, and stream them through Spark into Parquet.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "file",
        nargs="?",
        type=Path,
        metavar="FILE",
        help="a text file; by default a large log or source code found here",
    )
    parser.add_argument("--partitions", type=int, default=4, help="partitions of the topic (default: 4)")
    parser.add_argument(
        "--directory",
        type=Path,
        default=Path("quickstart-data"),
        metavar="DIR",
        help="where the run's own directory is made (default: ./quickstart-data)",
    )
    parser.add_argument(
        "--kill-broker", action="store_true", help="kill the broker on the way (SIGKILL) and start it again"
    )
    parser.set_defaults(run=run)


@dataclass
class Figures:
    """Figures of the run, for the progress line and the table."""

    lines: int = 0
    bytes: int = 0
    acknowledged: dict[int, int] = field(default_factory=dict)
    """Records acknowledged, by partition."""
    produce_seconds: float = 0.0
    rows: int = 0
    stream_seconds: float = 0.0
    failure: BaseException | None = None
    done: bool = False

    @property
    def acked(self) -> int:
        return sum(self.acknowledged.values())


def run(arguments: argparse.Namespace) -> int:
    """Run the quickstart and return its exit code.

    0: every acknowledged record is in the Parquet files once; 1: not so; 2: the input cannot be used.
    """
    from spark_kafkalog.cli.local_broker import BrokerStartError, LocalBroker
    from spark_kafkalog.cli.requirements import missing_requirement
    from spark_kafkalog.cli.sample_input import NoInputError, choose_input

    if arguments.partitions < 1:
        print("kafkalog: --partitions must be at least 1", file=sys.stderr)
        return 2
    missing = missing_requirement()
    if missing:
        print(f"kafkalog: {missing}", file=sys.stderr)
        return 1
    try:
        described, files = choose_input(arguments.file)
    except NoInputError as error:
        print(f"kafkalog: {error}", file=sys.stderr)
        return 2
    try:
        directory = own_directory(arguments.directory)
    except OSError as error:
        print(
            f"kafkalog: --directory {arguments.directory}: {error.strerror}; name a directory that you can write in",
            file=sys.stderr,
        )
        return 2
    say(f"input    {described}")
    say(f"output   {directory}")
    # The broker has a session of its own: whatever ends this process must stop it too.
    for number in (signal.SIGTERM, signal.SIGHUP):
        # A command that `nohup` has started goes on when its terminal is closed.
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, lambda number, _: sys.exit(128 + number))
    try:
        with LocalBroker(directory / "log", directory / "broker.out") as broker:
            say(f"broker   process {broker.pid} accepts connections on {broker.bootstrap}")
            figures = stream(arguments, files, directory, broker)
    except BrokerStartError as error:
        print(f"kafkalog: {error}", file=sys.stderr)
        return 1
    if figures.failure is not None:
        print(f"kafkalog: {figures.failure}", file=sys.stderr)
        return 1
    return report(described, figures, directory)


def own_directory(parent: Path) -> Path:
    """Create a fresh directory for this run below `parent`, named for the time.

    Another run may begin in the same second.
    """
    parent.mkdir(parents=True, exist_ok=True)
    first = directory = parent.resolve() / time.strftime("%Y%m%d-%H%M%S")
    attempt = 1
    while True:
        try:
            directory.mkdir()
        except FileExistsError:
            attempt += 1
            directory = first.with_name(f"{first.name}-{attempt}")
        else:
            return directory


def say(text: str) -> None:
    print(text, flush=True)


def stream(arguments: argparse.Namespace, files: list[Path], directory: Path, broker: LocalBroker) -> Figures:
    """Produce the files while Spark streams the topic into Parquet."""
    from spark_kafkalog.cli.quiet_spark import quiet_session

    figures = Figures()
    create_topic(broker.bootstrap, arguments.partitions)
    say(f"topic    {TOPIC}, {arguments.partitions} partitions")
    spark = quiet_session("kafkalog quickstart", directory)
    try:
        query = start_query(spark, broker.bootstrap, directory)
        say("spark    is streaming into Parquet")
        producing = threading.Thread(target=produce, args=(broker.bootstrap, files, figures), daemon=True)
        started = time.monotonic()
        producing.start()
        follow(query, producing, figures, started, broker if arguments.kill_broker else None)
        if figures.failure is None:
            query.processAllAvailable()
            figures.rows = rows_read(query)
            figures.stream_seconds = time.monotonic() - started
        query.stop()
    except Exception as error:
        figures.failure = figures.failure or error
    finally:
        spark.stop()
    return figures


def create_topic(bootstrap: str, partitions: int) -> None:
    from kafkalog.client.admin import Admin, NewTopic
    from kafkalog.client.config import ClientConfig

    with Admin(ClientConfig.from_dict({"bootstrap.servers": bootstrap})) as admin:
        admin.create_topics([NewTopic(TOPIC, partitions, 1)])


def start_query(spark: Any, bootstrap: str, directory: Path) -> Any:
    """Return the query of the README: a topic into Parquet, with a checkpoint."""
    lines = (
        spark.readStream.format("kafkalog")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", TOPIC)
        .option("startingOffsets", "earliest")
        # A low limit, so that there is progress to see.
        .option("maxOffsetsPerTrigger", 400_000)
        .load()
    )
    return (
        lines.selectExpr("CAST(value AS STRING) AS line", "partition", "offset", "timestamp")
        .writeStream.format("parquet")
        .option("path", str(directory / "parquet"))
        .option("checkpointLocation", str(directory / "checkpoint"))
        .start()
    )


def produce(bootstrap: str, files: list[Path], figures: Figures) -> None:
    """Send every line and wait for the acknowledgements."""
    from kafkalog.client.producer import Producer
    from spark_kafkalog.cli.sample_input import read_lines

    started = time.monotonic()

    def settled(future: Any) -> None:
        error = future.exception()
        if error is not None:
            figures.failure = figures.failure or error
            return
        partition = future.result()[0].partition
        figures.acknowledged[partition] = figures.acknowledged.get(partition, 0) + future.count

    try:
        with Producer({"bootstrap.servers": bootstrap, "linger.ms": "5", "delivery.timeout.ms": "120000"}) as producer:
            for lines in read_lines(files):
                for future in producer.send_values(TOPIC, lines):
                    future.add_done_callback(settled)
                figures.lines += len(lines)
                figures.bytes += sum(map(len, lines))
            producer.flush()
    except Exception as error:
        figures.failure = figures.failure or error
    figures.produce_seconds = time.monotonic() - started
    figures.done = True


def follow(
    query: Any, producing: threading.Thread, figures: Figures, started: float, victim: LocalBroker | None
) -> None:
    """Show progress until Spark has read all that was produced; kill `victim` once on the way."""
    progress = Progress()
    while True:
        producing.join(PROGRESS_SECONDS)
        figures.rows = rows_read(query)
        seconds = time.monotonic() - started
        progress.show(f"{seconds:6.1f} s   sent {figures.lines:>12,}   acknowledged {figures.acked:>12,}   "
                      f"{state_of_reading(figures.rows, str(query.status['message']))}")  # fmt: skip
        if figures.failure is not None:
            break
        if query.exception() is not None:
            raise RuntimeError(f"the query failed: {query.exception()}")
        if victim is not None and figures.acked > 0:
            progress.clear()
            say(f"broker   process {victim.pid} is killed (SIGKILL)")
            victim.restart()
            say(f"broker   started again as process {victim.pid}, recovered its log, and goes on")
            victim = None
        if figures.done:
            if figures.rows >= figures.acked:
                break
            if not producing.is_alive():
                time.sleep(PROGRESS_SECONDS)
    progress.clear()


class Progress:
    """A line that replaces itself on a terminal; elsewhere a line of its own every few seconds."""

    def __init__(self) -> None:
        self._shown_at = time.monotonic()

    def show(self, text: str) -> None:
        if sys.stdout.isatty():
            print(f"\r\x1b[K{text}", end="", flush=True)
        elif time.monotonic() - self._shown_at >= LOGGED_PROGRESS_SECONDS:
            self._shown_at = time.monotonic()
            say(text)

    def clear(self) -> None:
        """Clear the line for other output."""
        if sys.stdout.isatty():
            print("\r\x1b[K", end="", flush=True)


def state_of_reading(rows: int, status: str) -> str:
    """Say how many rows Spark has read. Rows count at the end of a micro-batch, so the first ones take a while."""
    return f"read by Spark {rows:>12,} rows" if rows else f"Spark's first batch: {status[:1].lower()}{status[1:]}"


def rows_read(query: Any) -> int:
    return sum(int(progress["numInputRows"]) for progress in query.recentProgress)


def report(described: str, figures: Figures, directory: Path) -> int:
    """Compare the Parquet files with what was acknowledged, and print the table."""
    import pyarrow.compute as pc
    import pyarrow.dataset as ds

    from spark_kafkalog.compat.streams import file_sink

    parquet = directory / "parquet"
    # What a crashed task left behind is not part of the output.
    committed = file_sink.written_files(parquet)
    if committed is None:
        committed = sorted(parquet.rglob("*.parquet"))
    table = ds.dataset([str(path) for path in committed], format="parquet").to_table(columns=["partition", "offset"])
    duplicates = missing = 0
    for partition, expected in sorted(figures.acknowledged.items()):
        offsets = table.filter(pc.equal(table["partition"], partition))["offset"]
        distinct = pc.count_distinct(offsets).as_py()
        duplicates += len(offsets) - distinct
        missing += max(0, expected - distinct)
    stored = sum(path.stat().st_size for path in committed)
    produced = f"{figures.acked / max(figures.produce_seconds, 1e-9):,.0f} records/s"
    streamed = f"{table.num_rows / max(figures.stream_seconds, 1e-9):,.0f} rows/s"
    rows = [
        ("read from", described),
        ("lines sent", f"{figures.lines:,} ({figures.bytes / 1e6:,.1f} MB)"),
        ("acknowledged", f"{figures.acked:,} in {figures.produce_seconds:.1f} s, {produced}"),
        ("rows in Parquet", f"{table.num_rows:,} in {len(committed)} files ({stored / 1e6:,.1f} MB)"),
        ("end to end", f"{figures.stream_seconds:.1f} s, {streamed}"),
        ("missing", f"{missing:,}"),
        ("duplicates", f"{duplicates:,}"),
    ]
    width = max(len(name) for name, _ in rows)
    say("")
    for name, value in rows:
        say(f"  {name:<{width}}  {value}")
    say("")
    say(f"the Parquet files are in {parquet}")
    return 0 if not missing and not duplicates and figures.acked == figures.lines == table.num_rows else 1
