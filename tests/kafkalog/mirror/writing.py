"""Topics and records of the source, as the tests of mirrors write them."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from random import Random

from kafkalog.client.admin import Admin, NewTopic
from kafkalog.client.producer import Producer

PARTITIONS = 3
"""Of a topic that a `Writer` writes to."""
HEADERS = (("h", b"1"), ("h", None))


def make(address: str, topic: str, partitions: int = 1, **configs: str) -> None:
    with Admin({"bootstrap.servers": address}) as admin:
        admin.create_topics([NewTopic(topic, partitions, 1, _dotted(configs))])


def write(address: str, topic: str, numbers: range, partition: int | None = 0, **config: str) -> None:
    with Producer(_properties(address, config)) as producer:
        for number in numbers:
            producer.send(
                topic, b"v%d" % number, b"k%d" % (number % 5), HEADERS, timestamp=1000 + number, partition=partition
            )


def transactions(address: str, topic: str, identity: str, count: int, **config: str) -> int:
    """Write transactions, every third of which is aborted; return how many records are committed."""
    committed = 0
    with Producer({**_properties(address, config), "transactional.id": identity}) as producer:
        producer.init_transactions()
        for number in range(count):
            producer.begin_transaction()
            for each in range(number % 4 + 1):
                producer.send(topic, b"t%d-%d" % (number, each), b"k", partition=0)
            producer.flush()
            if number % 3:
                producer.commit_transaction()
                committed += number % 4 + 1
            else:
                producer.abort_transaction()
    return committed


class Writer:
    """Writes transactions, some of which it aborts, until it is stopped."""

    def __init__(self, address: str, topic: str, seed: int = 7) -> None:
        self.committed = 0
        self._address, self._topic, self._seed = address, topic, seed
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        random, number, identity = Random(self._seed), 0, f"{self._topic}-{self._seed}"
        with Producer({"bootstrap.servers": self._address, "transactional.id": identity}) as producer:
            producer.init_transactions()
            while not self._stop.is_set():
                producer.begin_transaction()
                size = random.randrange(1, 20)
                for _ in range(size):
                    producer.send(
                        self._topic,
                        b"v%d" % number,
                        b"%d" % self._seed,
                        timestamp=number,
                        partition=random.randrange(3),
                    )
                    number += 1
                if random.random() < 0.25:
                    producer.flush()
                    producer.abort_transaction()
                else:
                    producer.commit_transaction()
                    self.committed += size
                self._stop.wait(0.01)

    def stop(self) -> int:
        """Stop; return how many records are committed."""
        self._stop.set()
        self._thread.join()
        return self.committed


def _properties(address: str, config: Mapping[str, str]) -> dict[str, str]:
    return {"bootstrap.servers": address, **_dotted(config)}


def _dotted(config: Mapping[str, str]) -> dict[str, str]:
    return {key.replace("_", "."): text for key, text in config.items()}
