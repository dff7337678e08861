"""A mixed cluster whose brokers reach each other on a listener of their own, BROKERS, which is secured."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TypeVar

from peers.brokers import kafka
from peers.brokers.kafka import ZooKeeperKafka
from peers.brokers.zookeeper import ZooKeeper
from peers.process import free_port
from tests.broker.member.mixed_cluster import AS_3_9, HEAP, OURS, THEIRS, MixedCluster
from tests.support.broker_cluster import IDS

LISTENER = "listener.name.brokers"
"""The prefix of the listener's own keys."""
HOST = "localhost"
"""The host of the listener. Java asks for tickets by the name of a host, even if it connects to an address."""


class KafkaWithListener(ZooKeeperKafka):
    """A broker with the listener BROKERS."""

    between = ""
    """The address of the listener."""

    def prepare(self) -> None:
        super().prepare()
        self.between = f"{HOST}:{free_port()}"
        self.change({"listeners": f"PLAINTEXT://{self.bootstrap},BROKERS://{self.between}"})

    def change(self, settings: Mapping[str, str]) -> None:
        """Change properties for the next start."""
        with self.properties.open("a") as file:
            # The last value of a property counts.
            file.writelines(f"{name}={value}\n" for name, value in settings.items())


class SecuredMix(MixedCluster):
    """See the module.

    Args:
        directory: where all files go.
        zookeeper: the address of ZooKeeper.
        protocol: the security protocol of the listener.
        settings: further settings of all brokers.
        jvm: options of Java.
    """

    def __init__(
        self, directory: Path, zookeeper: str, protocol: str, settings: Mapping[str, str], jvm: Sequence[str] = ()
    ) -> None:
        super().__init__(directory, zookeeper, AS_3_9)
        own = {
            "listener.security.protocol.map": f"PLAINTEXT:PLAINTEXT,BROKERS:{protocol}",
            "inter.broker.listener.name": "BROKERS",
            **settings,
        }
        self._secured = {
            number: KafkaWithListener(
                theirs.version,
                zookeeper,
                directory=theirs.directory,
                config={**theirs.config, **own},
                heap=HEAP,
                jvm=jvm,
            )
            for number, theirs in self.theirs.items()
        }
        self.theirs = dict(self._secured)
        self._between = f"{HOST}:{free_port()}"
        self.ours.overrides |= own
        self.ours.overrides["listeners"] = f"PLAINTEXT://{self.ours.address},BROKERS://{self._between}"

    def between(self, broker: int) -> str:
        """Return the address of a broker's listener."""
        return self._between if broker == OURS else self._secured[broker].between

    def change(self, broker: int, settings: Mapping[str, str]) -> None:
        """Stop a broker, and start it with changed settings."""
        self.stop(broker)
        if broker == OURS:
            self.ours.overrides |= settings
        else:
            self._secured[broker].change(settings)
        self.restart(broker)

    def create_topics(self) -> None:
        """Create a topic that one of theirs leads, and one that ours leads; all brokers have replicas."""
        self.create("theirs", [[THEIRS, OURS, 2]])
        self.create("ours", [[OURS, THEIRS, 2]])

    def write(self, values: Sequence[bytes]) -> None:
        """Write values to both topics; return when all are acknowledged."""
        writer = self.writer()
        for topic in ("theirs", "ours"):
            writer.send(topic, values)
        writer.flush()

    def wait_in_sync(self) -> None:
        """Wait until all replicas of both topics are in sync."""
        for topic in ("theirs", "ours"):
            self.wait_isr(topic, IDS)

    def check_all_have(self, values: Sequence[bytes]) -> None:
        """Check that all replicas of both topics have these values."""
        self.wait_in_sync()
        for topic in ("theirs", "ours"):
            assert self.read(topic) == values
            self.wait_equal(topic)


Cluster = TypeVar("Cluster", bound=SecuredMix)


@contextmanager
def running(directory: Path, make: Callable[[str], Cluster]) -> Iterator[Cluster]:
    """Run ZooKeeper and the cluster that is made for its address; all processes end with the block."""
    with ExitStack() as stack:
        zookeeper = stack.enter_context(ZooKeeper(kafka.KAFKA_3, directory / "zookeeper"))
        zookeeper.wait()
        cluster = make(zookeeper.address)
        for broker in IDS:
            stack.callback(cluster.kill, broker)
        cluster.start()
        yield cluster
