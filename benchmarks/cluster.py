"""Three brokers beside three of Apache Kafka: produce, failovers, return, idle cost, leaders moved, catch-up.

Run from the repository: `python -m benchmarks.cluster [--quick] [--parts ...]`.

Each cluster has a ZooKeeper of its own and runs with the defaults of its distribution, but `min.insync.replicas=2` and
three replicas of everything. Both run the whole time, all on this machine; runs take turns (A B A B).

- `produce`: ProducerPerformance of the newest Apache Kafka to a topic of three partitions and three replicas, once and
  three times at the same time. CPU is that of all three brokers, divided by the bytes of record values.
- `failover`: librdkafka with acks=all sends some 1,000 records/s to one partition whose leader is killed with SIGKILL,
  or stopped with SIGTERM. The gap is the longest time between two acknowledgements after that. In the case "the
  controller, too" the leader is the controller. Every acknowledged record must be in the log.
- `election`: the same records, while the preferred leader of their partition is elected. All other partitions are idle.
- `rejoin`: the broker that was killed is started again: the time to its first answer, and from then until all replicas
  of the topic are in sync.
- `leaders`: a broker that leads a third of 1,000 partitions is stopped or killed: the time until no partition is led by
  it, as a client sees it.
- `catch-up`: a broker starts with an empty directory: the bytes of the topic divided by the time from its first answer
  until it is in sync.
- `idle`: CPU and resident memory of the three brokers with 1,000 partitions.
- `controller`: the controller of 10,000 partitions, which leads a third of them, is killed with SIGKILL: the time until
  the other brokers tell of another controller, and until clients are told of another leader of every partition and
  100 of these have each acknowledged a record. CPU is that of the two other brokers. For this part each cluster runs
  alone.
"""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise, product
from pathlib import Path

from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.admin import TopicMetadata

from benchmarks.peers import report
from benchmarks.peers.clusters import BROKERS, CLUSTERS, PEER, Cluster, running
from benchmarks.produce import TOOL, run_tools
from benchmarks.recording.findings import HIGHER, LOWER, Finding, compared, count, several, size
from peers.brokers import kafka

PARTS = ("produce", "failover", "election", "rejoin", "leaders", "catch-up", "idle", "controller")
RECORDS = {100: 1_000_000, 1000: 200_000}
QUICK_SHARE = 8
PARTITIONS = 3
IDLE_PARTITIONS = 30
MANY = 1000
MOST, SAMPLE = 10_000, 100
QUIET_S = 10.0
STEADY_S, MOST_S = 2.0, 60.0
"""The time for which records are sent before a broker ends, and the longest time until they are acknowledged again."""
PACE_S = 0.001
CATCH_UP_BYTES = 1_000_000_000
APACHE = {PEER: f"Apache {PEER}"}
LEADER, CONTROLLER = "the leader", "the leader, which is the controller, too"

KILLED, STOPPED = signal.SIGKILL, signal.SIGTERM
_WORDS = {KILLED: "kill -9", STOPPED: "SIGTERM"}
START, BACK = "start of a broker of a cluster", "from its first answer until its replicas are in sync"
ELECTED = "longest gap in acknowledgements, another leader elected"
CATCH_UP = "catch-up of an empty follower"
REPLACED = f"another controller of {count(MOST)} partitions after {_WORDS[KILLED]}"
LED = f"all of {count(MOST)} partitions led after {_WORDS[KILLED]} of the controller"
SPENT = f"{LED}: CPU of the other brokers"
IDLE = f"three idle brokers, {count(MANY)} partitions of three replicas"

Results = dict[str, dict[str, list[float]]]


def produced(octets: int, acks: str, producers: int = 1) -> str:
    plain = f"three replicas, {size(octets)}, acks={acks}"
    return plain if producers == 1 else f"{plain}, {several(producers, 'producer')}"


def gap(who: str, how: signal.Signals) -> str:
    return f"longest gap in acknowledgements, {_WORDS[how]} of {who}"


def moved(how: signal.Signals) -> str:
    return f"a third of {count(MANY)} leaders moved after {_WORDS[how]}"


def cost(case: str) -> str:
    return f"{case}: CPU of all brokers for a GB"


PRODUCERS = (1, 3)
PRODUCED = [produced(*case) for case in product(RECORDS, ("all", "1"), PRODUCERS)]
ENDS = ((LEADER, KILLED), (CONTROLLER, KILLED), (LEADER, STOPPED))
CASES: dict[str, tuple[str, str]] = {
    **dict.fromkeys(PRODUCED, ("records/s", HIGHER)),
    **{cost(case): ("s", LOWER) for case in PRODUCED},
    **{gap(who, how): ("ms", LOWER) for who, how in ENDS},
    ELECTED: ("ms", LOWER),
    START: ("s", LOWER),
    BACK: ("s", LOWER),
    **{moved(how): ("s", LOWER) for how in (STOPPED, KILLED)},
    CATCH_UP: ("MB/s", HIGHER),
    REPLACED: ("s", LOWER),
    LED: ("s", LOWER),
    SPENT: ("s", LOWER),
    f"{IDLE}: CPU": ("% of a core", LOWER),
    f"{IDLE}: resident memory": ("MB", LOWER),
}
"""The unit of each result, and whether higher or lower figures are better."""


class Measured:
    """Collects the figures of each case, by cluster.

    Args:
        units: of each case, and whether higher or lower figures are better.
    """

    def __init__(self, units: Mapping[str, tuple[str, str]] = CASES) -> None:
        self.units = units
        self.results: Results = defaultdict(lambda: defaultdict(list))

    def add(self, case: str, cluster: Cluster, figure: float) -> None:
        """Add the figure of a run."""
        self.results[case][cluster.name].append(figure)
        told = f"{time.strftime('%X')} {cluster.name:12} {case:70} {figure:,.3f} {self.units[case][0]}"
        print(told, file=sys.stderr, flush=True)


def produce(
    cluster: Cluster, topic: str, octets: int, acks: str, records: int, producers: int = 1
) -> tuple[float, float]:
    """Produce to a topic that has been created, and delete it.

    Returns:
        Records a second of all producers, and the CPU seconds of all brokers for a GB.
    """
    share = records // producers
    args = ["--topic", topic, "--num-records", str(share), "--record-size", str(octets), "--throughput", "-1"]
    args += ["--warmup-records", str(share // 10), "--bootstrap-server", cluster.bootstrap]
    args += ["--command-property", f"acks={acks}"]
    before = cluster.cpu_seconds()
    found = run_tools([kafka.tool_line(TOOL, args)] * producers)
    # The followers finish what acks=1 has not waited for.
    cluster.wait_in_sync(topic)
    cpu = cluster.cpu_seconds() - before
    if (sent := sum(cluster.end_offsets(topic, PARTITIONS))) != share * producers:
        raise RuntimeError(f"{cluster.name} holds {sent} records of {share * producers}")
    cluster.delete_topic(topic)
    return sum(rate for rate, _ in found), cpu / (share * producers * octets / 1e9)


class Sender:
    """Sends numbered records to one partition and notes when each is acknowledged."""

    def __init__(self, cluster: Cluster, topic: str) -> None:
        self._topic = topic
        self._next = 0
        self.failed: list[str] = []
        self.times: list[float] = []
        self._producer = Producer(
            {
                "bootstrap.servers": cluster.bootstrap,
                "acks": "all",
                "enable.idempotence": True,
                "linger.ms": 0,
                "log_level": 2,
            }
        )

    def _acknowledged(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.failed.append(str(error))
        else:
            self.times.append(time.perf_counter())

    def send_until(self, is_over: Callable[[], bool]) -> None:
        while not is_over():
            self._producer.produce(self._topic, b"%d" % self._next, partition=0, on_delivery=self._acknowledged)
            self._next += 1
            self._producer.poll(PACE_S)

    def finish(self) -> int:
        """Wait for what is under way; return how many records were sent."""
        self._producer.flush(MOST_S)
        if self.failed:
            raise RuntimeError(f"{len(self.failed)} records were not delivered: {self.failed[0]}")
        return self._next


def failover(cluster: Cluster, measured: Measured, who: str, how: signal.Signals, serial: int) -> int:
    """End the leader of a partition; return the broker that ended."""
    topic = f"failover-{serial}"
    cluster.create_topic(topic, 1)
    for another in range(1, 20):
        # Topics begin with another broker each; of some tries one has the wanted leader.
        if (cluster.leader(topic) == cluster.controller()) == (who == CONTROLLER):
            break
        topic = f"failover-{serial}-{another}"
        cluster.create_topic(topic, 1)
    ended = cluster.leader(topic)
    sender = Sender(cluster, topic)
    until = time.perf_counter() + STEADY_S
    sender.send_until(lambda: time.perf_counter() > until)
    killed = time.perf_counter()
    cluster.end(ended, how)

    has_ended = 0.0

    def is_steady_again() -> bool:
        nonlocal has_ended
        now = time.perf_counter()
        if now > killed + MOST_S:
            raise TimeoutError(f"{cluster.name}: nothing was acknowledged for {MOST_S:.0f} s after {who} ended")
        if not has_ended and not cluster.is_running(ended):
            has_ended = now
        if not has_ended or now < has_ended + STEADY_S:
            return False
        return _longest(sender.times, now - STEADY_S) < STEADY_S / 4 and sender.times[-1] > now - STEADY_S / 4

    sender.send_until(is_steady_again)
    sent = sender.finish()
    if (kept := cluster.end_offsets(topic, 1)[0]) != sent:
        raise RuntimeError(f"{cluster.name} holds {kept} records of {sent}")
    measured.add(gap(who, how), cluster, _longest(sender.times, killed) * 1000)
    cluster.gone(ended)
    return ended


def election(cluster: Cluster, measured: Measured, serial: int) -> None:
    """Have another replica lead a partition, by an election of its preferred leader."""
    topic = f"election-{serial}"
    cluster.create_topic(topic, 1)
    cluster.prefer_another(topic)
    sender = Sender(cluster, topic)
    until = time.perf_counter() + STEADY_S
    sender.send_until(lambda: time.perf_counter() > until)
    with ThreadPoolExecutor(1) as pool:
        begun = time.perf_counter()
        elected = pool.submit(cluster.elect_preferred, topic, 1)
        until = begun + STEADY_S
        sender.send_until(lambda: time.perf_counter() > until and elected.done())
        elected.result()
    sent = sender.finish()
    if (kept := cluster.end_offsets(topic, 1)[0]) != sent:
        raise RuntimeError(f"{cluster.name} holds {kept} records of {sent}")
    measured.add(ELECTED, cluster, _longest(sender.times, begun) * 1000)


def _longest(times: Sequence[float], since: float) -> float:
    """Return the longest time between two acknowledgements of which the second is after `since`."""
    return max((later - earlier for earlier, later in pairwise(times) if later > since), default=0.0)


def rejoin(cluster: Cluster, measured: Measured, number: int, topics: Sequence[str]) -> None:
    """Start a broker that has ended; wait until its replicas are in sync."""
    measured.add(START, cluster, cluster.start(number))
    began = time.perf_counter()
    for topic in topics:
        cluster.wait_in_sync(topic)
    measured.add(BACK, cluster, time.perf_counter() - began)


def leaders_moved(cluster: Cluster, how: signal.Signals, topic: str, partitions: int) -> float:
    """End a broker that leads a third of a topic, and start it again; return the seconds until it led nothing."""
    number = BROKERS[-1] if cluster.controller() != BROKERS[-1] else BROKERS[0]
    cluster.elect_preferred(topic, partitions)
    began = time.perf_counter()
    cluster.end(number, how)
    admin = cluster.admin(without=number)

    def are_moved(found: TopicMetadata) -> bool:
        return all(each.leader > 0 and each.leader != number for each in found.partitions.values())

    cluster.wait_for(topic, are_moved, admin)
    spent = time.perf_counter() - began
    cluster.gone(number)
    cluster.start(number)
    cluster.wait_in_sync(topic)
    return spent


def catch_up(cluster: Cluster, measured: Measured, octets: int, serial: int) -> None:
    """Start a broker with an empty directory beside a topic of so many bytes."""
    topic = f"catch-up-{serial}"
    cluster.create_topic(topic, PARTITIONS)
    number = BROKERS[-1] if cluster.controller() != BROKERS[-1] else BROKERS[0]
    args = ["--topic", topic, "--num-records", str(octets // 1000), "--record-size", "1000", "--throughput", "-1"]
    args += ["--bootstrap-server", cluster.bootstrap, "--command-property", "acks=all"]
    kafka.run_java_tool(TOOL, args)
    cluster.end(number, signal.SIGTERM)
    cluster.gone(number)
    for directory in cluster.log_dir(number).glob(f"{topic}-*"):
        shutil.rmtree(directory)
    cluster.start(number)
    began = time.perf_counter()
    cluster.wait_in_sync(topic)
    spent = time.perf_counter() - began
    measured.add(CATCH_UP, cluster, octets / 1e6 / spent)
    cluster.delete_topic(topic)


def idle(cluster: Cluster, seconds: float) -> tuple[float, float]:
    """Return what doing nothing costs all brokers: per cent of a core, and MB of resident memory."""
    time.sleep(seconds)
    before = cluster.cpu_seconds()
    time.sleep(seconds)
    return (cluster.cpu_seconds() - before) / seconds * 100, cluster.resident_bytes() / 1e6


def controller_killed(cluster: Cluster, measured: Measured, topics: Sequence[str]) -> int:
    """Kill the controller; measure until there is another one, and until all is led again; return the broker."""
    number = cluster.controller()
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "log_level": 0})
    sample = [(topic, partition) for topic in topics for partition in range(0, MANY, MANY * len(topics) // SAMPLE)]
    write_to(producer, sample)
    before = cluster.cpu_seconds(without=number)
    began = time.perf_counter()
    cluster.end(number, KILLED)
    cluster.wait_for_controller(number)
    measured.add(REPLACED, cluster, time.perf_counter() - began)
    cluster.wait_without(number, topics)
    write_to(producer, sample)
    measured.add(LED, cluster, time.perf_counter() - began)
    cluster.gone(number)
    measured.add(SPENT, cluster, cluster.cpu_seconds() - before)
    return number


def write_to(producer: Producer, partitions: Sequence[tuple[str, int]]) -> None:
    """Send a record to each partition; wait until all are acknowledged."""
    failed: list[KafkaError] = []

    def delivered(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            failed.append(error)

    for topic, partition in partitions:
        producer.produce(topic, b"x", partition=partition, on_delivery=delivered)
    if producer.flush(MOST_S) or failed:
        raise RuntimeError(f"records are not acknowledged: {failed[:1]}")


def arguments(words: Sequence[str] | None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clusters", nargs="+", default=list(CLUSTERS), choices=CLUSTERS, metavar="NAME")
    parser.add_argument("--dir", type=Path, help="where the brokers keep their data (default: a temporary directory)")
    parser.add_argument("--override", action="append", default=[], metavar="KEY=VALUE", help="a setting of our brokers")
    parser.add_argument("--parts", nargs="+", default=list(PARTS), choices=PARTS, help="what to measure")
    parser.add_argument("--sizes", type=int, nargs="+", default=list(RECORDS), choices=RECORDS, help="of a record")
    parser.add_argument(
        "--producers", type=int, nargs="+", default=list(PRODUCERS), choices=PRODUCERS, help="tools at the same time"
    )
    parser.add_argument("--runs", type=int, default=3, help="runs of each case on each cluster, in turns")
    parser.add_argument("--quick", action="store_true", help="one run of less: a look, not a measurement")
    return parser.parse_args(words)


def main(words: Sequence[str] | None = None) -> list[Finding]:
    """Measure and print the results; return them."""
    options = arguments(words)
    if options.quick:
        options.runs = 1
    share = QUICK_SHARE if options.quick else 1
    measured = Measured()
    overrides = dict(item.split("=", 1) for item in options.override)
    if set(options.parts) - {"controller"}:
        with running(options.clusters, options.dir, overrides) as clusters:
            _measure(options, clusters, measured, share)
    for name in options.clusters if "controller" in options.parts else ():
        with running([name], options.dir, overrides) as (cluster,):
            _measure_controllers(cluster, measured, options.runs, share)
    show(measured, options.clusters)
    return findings(measured.results)


def _measure(options: argparse.Namespace, clusters: Sequence[Cluster], measured: Measured, share: int) -> None:
    serials = iter(range(10_000))
    if "produce" in options.parts:
        _measure_produce(options, clusters, measured, share)
    if {"failover", "rejoin"} & set(options.parts):
        into = measured if "failover" in options.parts else Measured()
        for who, how in ENDS:
            for _, cluster in product(range(options.runs), clusters):
                serial = next(serials)
                ended = failover(cluster, into, who, how, serial)
                again = measured if "rejoin" in options.parts and (who, how) == (LEADER, KILLED) else Measured()
                rejoin(cluster, again, ended, [f"failover-{serial}"])
    if "election" in options.parts:
        for cluster in clusters:
            cluster.create_topic("quiet", IDLE_PARTITIONS)
        for _, cluster in product(range(options.runs), clusters):
            election(cluster, measured, next(serials))
    if {"leaders", "idle"} & set(options.parts):
        _measure_many(options, clusters, measured, share)
    if "catch-up" in options.parts:
        for _, cluster in product(range(options.runs), clusters):
            catch_up(cluster, measured, CATCH_UP_BYTES // share, next(serials))


def _measure_produce(options: argparse.Namespace, clusters: Sequence[Cluster], measured: Measured, share: int) -> None:
    topics = (f"produce-{serial}" for serial in range(10_000))

    def once(cluster: Cluster, octets: int, acks: str, records: int, producers: int = 1) -> tuple[float, float]:
        topic = next(topics)
        cluster.create_topic(topic, PARTITIONS)
        return produce(cluster, topic, octets, acks, records, producers)

    for cluster in clusters:
        once(cluster, 100, "1", RECORDS[100] // share // 2)
    for octets, acks, producers in product(options.sizes, ("all", "1"), options.producers):
        case = produced(octets, acks, producers)
        for _, cluster in product(range(options.runs), clusters):
            rate, cpu = once(cluster, octets, acks, RECORDS[octets] // share, producers)
            measured.add(case, cluster, rate)
            measured.add(cost(case), cluster, cpu)


def _measure_many(options: argparse.Namespace, clusters: Sequence[Cluster], measured: Measured, share: int) -> None:
    partitions = MANY // share
    for cluster in clusters:
        cluster.create_topic("many", partitions)
    for _, cluster in product(range(options.runs), clusters if "idle" in options.parts else ()):
        cpu, memory = idle(cluster, QUIET_S / share)
        measured.add(f"{IDLE}: CPU", cluster, cpu)
        measured.add(f"{IDLE}: resident memory", cluster, memory)
    for how in (STOPPED, KILLED) if "leaders" in options.parts else ():
        for _, cluster in product(range(options.runs), clusters):
            measured.add(moved(how), cluster, leaders_moved(cluster, how, "many", partitions))
    for cluster in clusters:
        cluster.delete_topic("many")


def _measure_controllers(cluster: Cluster, measured: Measured, runs: int, share: int) -> None:
    topics = [f"most-{number}" for number in range(max(1, MOST // MANY // share))]
    for topic in topics:
        cluster.create_topic(topic, MANY)
    for run in range(runs):
        number = controller_killed(cluster, measured, topics)
        if run + 1 < runs:
            cluster.start(number)
            for topic in topics:
                cluster.wait_in_sync(topic)


def findings(results: Results) -> list[Finding]:
    """Turn what was measured into results."""
    found: list[Finding] = []
    for case, by in results.items():
        unit, better = CASES[case]
        found += compared(case, unit, by, APACHE, better=better)
    return found


def show(measured: Measured, names: Sequence[str]) -> None:
    """Print the table."""
    rows = [
        report.compare(f"{case}, {measured.units[case][0]}", {name: by[name] for name in names}, ",.2f")
        for case, by in measured.results.items()
    ]
    ratios = [f"ours / {name}" for name in names if name == PEER]
    print(f"\n{report.table(['case', *names, *ratios], rows)}")
    print(f"\n{report.machine()}")


if __name__ == "__main__":
    main()
