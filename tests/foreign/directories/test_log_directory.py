"""Test that Kafka checks and serves our partition directories, and that we serve Kafka's."""

from __future__ import annotations

import random
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from peers import require
from peers.brokers import kafka
from peers.clients.base import CODECS, ForeignClient, Record
from peers.clients.confluent import ConfluentClient
from tests.foreign.records import BASE_TIME, KEEP, RECORDS, placed
from tests.support.kafkalog_broker import KafkalogBroker

pytestmark = pytest.mark.peer

TOPIC = "handed-over"
# The least that every version takes.
SEGMENTS = {"segment.bytes": "1048576", **KEEP}
BULK_SIZE = 10_000
DUMP = {"4": "org.apache.kafka.tools.DumpLogSegments", "3": "kafka.tools.DumpLogSegments"}
COMPLAINT = re.compile(r"mismatch|corrupt|invalid|exception|error|not found|out of order|non-?monotonic|fail", re.I)
VERSIONS = pytest.mark.parametrize("version", kafka.VERSIONS)
StartBroker = Callable[..., KafkalogBroker]


def write(client: ForeignClient) -> list[Record]:
    """Every codec, idempotent and not, over several segments; what is in the partition then."""
    client.create_topic(TOPIC, config=SEGMENTS)
    noise = random.Random(1)
    sent: list[Record] = []
    for codec in CODECS:
        bulk = [Record(None, noise.randbytes(BULK_SIZE), (), BASE_TIME + 400 + i) for i in range(90)]
        for idempotent in (True, False):
            for records in (RECORDS, bulk[:45], bulk[45:]):
                client.produce(TOPIC, 0, records, codec=codec, idempotent=idempotent)
                sent += records
    return placed(tuple(sent))


def create_topic(bootstrap: str) -> None:
    with closing(ConfluentClient(bootstrap)) as client:
        client.create_topic(TOPIC, config=SEGMENTS)


def segments(partition: Path) -> list[Path]:
    return sorted(partition.glob("*.log"))


def replace_partition(source: Path, target: Path) -> None:
    """Put the files of one stopped broker in the place of another's, but for the topic's identity."""
    for file in target.iterdir():
        if file.name != "partition.metadata":
            file.unlink()
    for file in source.iterdir():
        if file.name != "partition.metadata":
            shutil.copy(file, target / file.name)


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Record]]:
    """A partition directory that our broker wrote and left by a clean stop, and what is in it."""
    require(kafka.missing())
    with KafkalogBroker(tmp_path_factory.mktemp("ours")) as broker:
        with closing(ConfluentClient(broker.bootstrap)) as client:
            records = write(client)
        assert broker.stop() == 0
    partition = broker.log_dir / f"{TOPIC}-0"
    assert len(segments(partition)) > 3
    return partition, records


def dump(version: str, files: list[Path], *options: str) -> str:
    names = ",".join(str(file) for file in files)
    return kafka.run_java_tool(DUMP[version[0]], ["--files", names, *options], version)


@VERSIONS
def test_dump_log_segments_reads_our_files(ours: tuple[Path, list[Record]], version: str) -> None:
    require(kafka.missing(version))
    partition, records = ours
    logs = dump(version, segments(partition), "--deep-iteration")
    assert "isvalid: false" not in logs
    # A line a record; its offset follows the bar that batches lack.
    assert [int(offset) for offset in re.findall(r"^\| offset: (\d+)", logs, re.M)] == [r.offset for r in records]
    indexes = [file for suffix in ("index", "timeindex") for file in sorted(partition.glob(f"*.{suffix}"))]
    assert indexes
    assert not COMPLAINT.search(dump(version, indexes, "--index-sanity-check"))
    entries = dump(version, indexes)
    assert not COMPLAINT.search(entries)
    assert entries.count("offset: ") > len(indexes)
    snapshots = sorted(partition.glob("*.snapshot"))
    assert snapshots
    assert "producerId: " in dump(version, snapshots)


@pytest.fixture
def start_kafka(tmp_path: Path) -> Iterator[Callable[[str], kafka.ApacheKafka]]:
    started: list[kafka.ApacheKafka] = []

    def start(version: str) -> kafka.ApacheKafka:
        require(kafka.missing(version))
        # The tests want a broker, not a fast one.
        broker = kafka.ApacheKafka(version, directory=tmp_path / "kafka", heap=("-Xmx256M",))
        started.append(broker)
        broker.start()
        return broker

    yield start
    for broker in started:
        broker.stop()


@VERSIONS
def test_kafka_serves_our_partition(
    ours: tuple[Path, list[Record]], start_kafka: Callable[[str], kafka.ApacheKafka], version: str
) -> None:
    partition, records = ours
    broker = start_kafka(version)
    create_topic(broker.bootstrap)
    broker.stop()
    replace_partition(partition, broker.log_dir / f"{TOPIC}-0")
    broker.start()
    late = BASE_TIME + 250
    with closing(ConfluentClient(broker.bootstrap)) as client:
        assert client.consume(TOPIC, 0, 0, len(records)) == records
        found = client.list_offset(TOPIC, 0, str(late))[0]
        assert found == next(r.offset for r in records if (r.timestamp or 0) >= late)
        assert client.produce(TOPIC, 0, RECORDS[:5], idempotent=True) == [len(records) + i for i in range(5)]


def test_we_serve_a_partition_of_kafka(
    start_broker: StartBroker, start_kafka: Callable[[str], kafka.ApacheKafka]
) -> None:
    """With transactions, which only their clients' broker wrote; after a kill of ours, recovered once more."""
    theirs = start_kafka(kafka.KAFKA_4)
    with closing(ConfluentClient(theirs.bootstrap)) as client:
        records = write(client)
        kept = list(records)
        for ending in ("commit", "abort", "commit"):
            first = client.list_offset(TOPIC, 0, "latest")[0]
            assert client.produce(TOPIC, 0, RECORDS[:20], codec="lz4", transaction=ending)[0] == first
            while client.list_offset(TOPIC, 0, "latest")[0] < first + 21:  # the marker is in the log
                pass
            records += placed(RECORDS[:20], first)
            kept += placed(RECORDS[:20], first) if ending == "commit" else []
        end = client.list_offset(TOPIC, 0, "latest")[0]
    theirs.stop()

    ours = start_broker()
    create_topic(ours.bootstrap)
    ours.stop()
    replace_partition(theirs.log_dir / f"{TOPIC}-0", ours.log_dir / f"{TOPIC}-0")
    for stop in (ours.stop, ours.kill):
        ours.start()
        with closing(ConfluentClient(ours.bootstrap)) as client:
            assert client.consume(TOPIC, 0, 0, end) == records
            assert client.consume(TOPIC, 0, 0, end, isolation="read_committed") == kept
            assert client.list_offset(TOPIC, 0, "latest")[0] == end
        stop()
    ours.start()
    with closing(ConfluentClient(ours.bootstrap)) as client:
        assert client.consume(TOPIC, 0, 0, end, isolation="read_committed") == kept
        assert client.produce(TOPIC, 0, RECORDS[:5], idempotent=True) == [end + i for i in range(5)]
