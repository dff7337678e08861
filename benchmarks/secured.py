"""Produce and consume over TLS, and by authenticated clients with ACLs: kafkalog beside Apache Kafka.

Run from the repository: `python -m benchmarks.secured [--quick]`.

Each broker has three listeners, and an authorizer: PLAINTEXT and SSL, whose clients are super users, and SASL_SSL with
SCRAM-SHA-512, whose user may do what ACLs allow. Keys are of the curve P-256, and both sides choose the cipher as they
like. Records of 1 KB are produced by Apache Kafka's ProducerPerformance (acks=1, one producer) with its defaults, and
consumed by confluent-kafka. That pauses for a second where its queue is full, which hides what brokers do, so
`fetch.queue.backoff.ms` is 10. CPU is what the broker's process used, divided by the bytes of record values. A
connection over TLS is one full handshake, an ApiVersions request and its response, one connection after the other; its
figure is the broker's CPU for each, after as many that a JVM compiles by. Runs go round the brokers, and the tables
give medians.
"""

from __future__ import annotations

import argparse
import socket
import ssl
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from benchmarks.consume import Filled, read_confluent
from benchmarks.peers import report
from benchmarks.peers.brokers import APACHE, NAMES, OURS, PEERS, Broker, add_options, workspace
from benchmarks.produce import TOOL, run_tools
from benchmarks.recording.findings import LOWER, Finding, compared
from kafkalog.protocol.messages.api_versions import ApiVersionsRequest
from peers.brokers import kafka
from peers.process import free_port
from peers.security.certificates import Certificates, make_certificates
from tests.support.kafkalog_broker import KafkalogBroker
from tests.support.wire import exchange

RECORD_SIZE, RECORDS = 1000, 1_000_000
QUICK_SHARE = 5
PARTITIONS = 3
HANDSHAKES = 1000
DEADLINE_S = 600.0
USER, PASSWORD, MECHANISM = "bench", "of-bench", "SCRAM-SHA-512"
PREFIX = "secured-"
LISTENERS = {"SSL": "SSL", "SASL_SSL": "SASL_SSL"}
WAYS = {"PLAINTEXT": "plain", "SSL": "TLS", "SASL_SSL": "TLS, SCRAM and ACLs"}
"""The listeners, and what the results call them."""
_LOGIN = "org.apache.kafka.common.security.scram.ScramLoginModule required"


@dataclass(frozen=True)
class Secured:
    """A running broker and the addresses of its listeners."""

    broker: Broker
    addresses: Mapping[str, str]
    authority: Path

    def java(self, listener: str, directory: Path) -> Path:
        """Write the properties of a Java client of a listener to a file."""
        properties = {"bootstrap.servers": self.addresses[listener], "security.protocol": listener}
        if listener != "PLAINTEXT":
            properties |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(self.authority)}
        if listener == "SASL_SSL":
            properties |= {
                "sasl.mechanism": MECHANISM,
                "sasl.jaas.config": f'{_LOGIN} username="{USER}" password="{PASSWORD}";',
            }
        file = directory / f"{self.broker.name.replace(' ', '-')}-{listener}.properties"
        file.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
        return file

    def librdkafka(self, listener: str) -> dict[str, str]:
        """Return the properties of librdkafka for a listener."""
        properties = {"security.protocol": listener, "group.id": f"{PREFIX}unused", "fetch.queue.backoff.ms": "10"}
        if listener != "PLAINTEXT":
            properties["ssl.ca.location"] = str(self.authority)
        if listener == "SASL_SSL":
            properties |= {"sasl.mechanism": MECHANISM, "sasl.username": USER, "sasl.password": PASSWORD}
        return properties


@dataclass(frozen=True)
class Result:
    """The result of one run; `rate` is in records/s, or MB/s, or connections/s."""

    rate: float
    cpu: float


# ------------------------------------------------------------------------------------------------- brokers


def settings(made: Certificates) -> dict[str, str]:
    """Return the settings of both sides."""
    return {
        "super.users": "User:ANONYMOUS",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(made.server),
        "sasl.enabled.mechanisms": MECHANISM,
        f"listener.name.sasl_ssl.{MECHANISM.lower()}.sasl.jaas.config": f"{_LOGIN};",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    }


@contextmanager
def running(names: Sequence[str], directory: Path | None, overrides: Sequence[str] = ()) -> Iterator[list[Secured]]:
    """Start the named brokers with their listeners, the user and its rights; stop them at the end."""
    with workspace(directory) as (root, stack):
        made = make_certificates(root)
        brokers = [start(name, root, made, stack, overrides) for name in names]
        for each in brokers:
            let_in(each.broker)
        yield brokers


def start(name: str, root: Path, made: Certificates, stack: ExitStack, overrides: Sequence[str]) -> Secured:
    """Start one broker."""
    home = root / name.replace(" ", "-")
    if name != OURS:
        peer = kafka.ApacheKafka(PEERS[name], directory=home, config=settings(made), listeners=LISTENERS)
        stack.enter_context(peer)
        addresses = {"PLAINTEXT": peer.bootstrap, **peer.addresses}
        return Secured(Broker(name, peer.bootstrap, peer.pid), addresses, made.authority)
    addresses = {listener: f"127.0.0.1:{free_port()}" for listener in WAYS}
    ours = KafkalogBroker(
        home,
        {
            **settings(made),
            "listeners": ",".join(f"{listener}://{address}" for listener, address in addresses.items()),
            **dict(item.split("=", 1) for item in overrides),
        },
    )
    stack.enter_context(ours)
    return Secured(Broker(name, addresses["PLAINTEXT"], ours.pid), addresses, made.authority)


def let_in(broker: Broker) -> None:
    """Make the user, who may produce to and consume from the topics of the benchmark."""
    admin = broker.admin()
    user = UserScramCredentialUpsertion(
        USER, ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096), PASSWORD.encode(), b"salt-of-the-bench"
    )
    for future in admin.alter_user_scram_credentials([user]).values():
        future.result(DEADLINE_S)
    rights = [
        AclBinding(kind, name, ResourcePatternType.PREFIXED, f"User:{USER}", "*", operation, AclPermissionType.ALLOW)
        for kind, name, operation in (
            (ResourceType.TOPIC, PREFIX, AclOperation.WRITE),
            (ResourceType.TOPIC, PREFIX, AclOperation.READ),
            (ResourceType.GROUP, PREFIX, AclOperation.READ),
        )
    ]
    for outcome in admin.create_acls(rights).values():
        outcome.result(DEADLINE_S)


# ---------------------------------------------------------------------------------------------- measuring


def produce(secured: Secured, listener: str, topic: str, records: int, directory: Path) -> Result:
    """Produce once to a new topic."""
    secured.broker.create_topic(topic, PARTITIONS)
    args = ["--topic", topic, "--num-records", str(records), "--record-size", str(RECORD_SIZE)]
    args += ["--throughput", "-1", "--warmup-records", str(records // 10), "--command-property", "acks=1"]
    args += ["--command-config", str(secured.java(listener, directory))]
    before = secured.broker.cpu_seconds()
    [(rate, _)] = run_tools([kafka.tool_line(TOOL, args)])
    cpu = secured.broker.cpu_seconds() - before
    sent = sum(secured.broker.end_offsets(topic, PARTITIONS))
    if sent != records:
        raise RuntimeError(f"{secured.broker.name} holds {sent} records of {records}")
    return Result(rate, cpu / (records * RECORD_SIZE / 1e9))


def consume(secured: Secured, listener: str, topic: str, records: int) -> Result:
    """Read a topic once from its beginning to its end."""
    before, started = secured.broker.cpu_seconds(), time.perf_counter()
    ends = secured.broker.end_offsets(topic, PARTITIONS)
    read_confluent(secured.addresses[listener], Filled(topic, tuple(ends)), secured.librdkafka(listener))
    spent = time.perf_counter() - started
    gigabytes = records * RECORD_SIZE / 1e9
    return Result(gigabytes * 1000 / spent, (secured.broker.cpu_seconds() - before) / gigabytes)


def connect(secured: Secured, count: int) -> Result:
    """Connect over TLS so often, one connection after the other; `cpu` is in ms for each."""
    host, _, port = secured.addresses["SSL"].rpartition(":")
    before, started = secured.broker.cpu_seconds(), time.perf_counter()
    for _ in range(count):
        # A context of its own resumes no session.
        context = ssl.create_default_context(cafile=str(secured.authority))
        with (
            socket.create_connection((host, int(port)), timeout=DEADLINE_S) as plain,
            context.wrap_socket(plain, server_hostname=host) as connection,
        ):
            exchange(connection, ApiVersionsRequest(), 0)
    spent = time.perf_counter() - started
    return Result(count / spent, (secured.broker.cpu_seconds() - before) * 1000 / count)


def arguments(words: Sequence[str] | None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser)
    parser.set_defaults(brokers=[OURS, *(name for name in NAMES if name.startswith("Kafka 4"))])
    parser.add_argument("--listeners", nargs="+", default=list(WAYS), choices=WAYS)
    return parser.parse_args(words)


Results = dict[str, dict[str, list[Result]]]
"""The results by case and by broker."""


def measure(brokers: Sequence[Secured], options: argparse.Namespace, directory: Path) -> Results:
    """Measure all cases in turns."""
    results: Results = defaultdict(lambda: defaultdict(list))
    runs = 1 if options.quick else options.runs
    records = RECORDS // QUICK_SHARE if options.quick else RECORDS

    def note(case: str, each: Secured, result: Result) -> None:
        results[case][each.broker.name].append(result)
        print(f"{time.strftime('%X')} {each.broker.name:12} {case:40} {result}", file=sys.stderr, flush=True)

    for each in brokers:
        for listener in options.listeners:
            produce(each, listener, f"{PREFIX}warm-{listener}", records // 2, directory)
            consume(each, listener, f"{PREFIX}warm-{listener}", records // 2)
    for run in range(runs):
        for listener in options.listeners:
            topic = f"{PREFIX}{listener}-{run}"
            for each in brokers:
                note(produced(listener), each, produce(each, listener, topic, records, directory))
            for each in brokers:
                note(consumed(listener), each, consume(each, listener, topic, records))
                each.broker.delete_topic(topic)
    count = HANDSHAKES // QUICK_SHARE if options.quick else HANDSHAKES
    for each in brokers:
        connect(each, count)
    for _ in range(runs):
        for each in brokers:
            note(CONNECTED, each, connect(each, count))
    return results


CONNECTED = "a connection over TLS"


def produced(listener: str) -> str:
    """Name the case of producing to a listener."""
    return f"produce 1 KB, acks=1, {WAYS[listener]}"


def consumed(listener: str) -> str:
    """Name the case of consuming from a listener."""
    return f"consume 1 KB, {WAYS[listener]}"


def main(words: Sequence[str] | None = None) -> list[Finding]:
    """Measure and print a table; return the results."""
    options = arguments(words)
    with running(options.brokers, options.dir, options.override) as brokers, tempfile.TemporaryDirectory() as directory:
        results = measure(brokers, options, Path(directory))
    print(f"\n{report.by_field(results, options.brokers, (('rate', 'rate', ',.0f'), ('CPU', 'cpu', '.2f')))}")
    print(f"\n{report.machine()}")
    return findings(results)


def findings(results: Mapping[str, Mapping[str, Sequence[Result]]]) -> list[Finding]:
    """Turn what was measured into results."""
    found: list[Finding] = []
    for case, measured in results.items():
        rates = {name: [each.rate for each in taken] for name, taken in measured.items()}
        costs = {name: [each.cpu for each in taken] for name, taken in measured.items()}
        if case == CONNECTED:
            found += compared(f"{case}: broker CPU", "ms", costs, APACHE, better=LOWER)
            continue
        found += compared(case, "records/s" if case.startswith("produce") else "MB/s", rates, APACHE)
        found += compared(f"{case}: broker CPU for a GB", "s", costs, APACHE, better=LOWER)
    return found


if __name__ == "__main__":
    main()
