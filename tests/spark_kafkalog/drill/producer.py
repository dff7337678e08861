"""A producer that writes numbered records until its standard input ends, and then prints which were acknowledged.

    python -m tests.spark_kafkalog.drill.producer BOOTSTRAP TOPIC ACKNOWLEDGED

ACKNOWLEDGED gets one line a record: partition, offset, number.
"""

from __future__ import annotations

import itertools
import random
import select
import sys
import time

from confluent_kafka import KafkaError, Message, Producer

RECORDS_A_SECOND = 3000
BURST = 60


def main(bootstrap: str, topic: str, path: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 5})
    padding = random.Random(1).randbytes(40).hex()
    with open(path, "w") as acknowledged:

        def note(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                raise RuntimeError(f"not acknowledged: {error}")
            value = message.value()
            assert value is not None
            acknowledged.write(f"{message.partition()} {message.offset()} {value.split()[0].decode()}\n")

        began, sent = time.monotonic(), 0
        for number in itertools.count():
            producer.produce(topic, f"{number} {padding}".encode(), on_delivery=note)
            sent += 1
            if sent % BURST == 0:
                producer.poll(0)
                ahead = sent / RECORDS_A_SECOND - (time.monotonic() - began)
                if select.select([sys.stdin], [], [], max(ahead, 0))[0]:
                    break
        if producer.flush(60):
            raise RuntimeError("not everything was acknowledged")
    print(sent, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
