"""Make `messages.jsonl.gz`: every message in every version, as the Java client writes it.

    python -m tests.kafkalog.protocol.golden.make_messages

`WriteMessages.java` fills Kafka's generated classes and writes them: 3.9's, but 4's for the messages of `NEWER`.
Lines that begin with `error` are its error codes, with `api` its APIs, with `defaults` what the fields of a
message's structure are at first, with `absent` which fields a version does not have, and whether a value in them is
ignored or refused. All others are one message in one version, filled in one way:

========  ===================================================================================================
message   its name, such as `FetchRequest`
version   the version
fill      `full`: a different value in every field, two elements in every array; `least`: null or empty, and
          the least number; `nulls`: the same, but every array has an element; `long`: lengths about where
          compact lengths take two and three bytes, and the greatest number; `default`: as the constructor
          leaves it
values    field to value; bytes, records and UUIDs are hexadecimal
header    hexadecimal: correlation id 77, client id `client`
body      hexadecimal
========  ===================================================================================================
"""

from __future__ import annotations

import gzip
import io
from pathlib import Path

from peers.toolchains import java, maven
from tests.kafkalog.protocol.support import message_classes

HERE = Path(__file__).parent
DATA = HERE / "messages.jsonl.gz"
CLIENT = ("org.apache.kafka:kafka-clients:3.9.2",)
NEWER_CLIENT = ("org.apache.kafka:kafka-clients:4.0.0",)
NEWER = ("ConsumerGroupDescribe", "ConsumerGroupHeartbeat")
"""APIs with newer versions than in Kafka 3.9."""


def write_messages() -> str:
    """Return the lines, which Java writes.

    Raises:
        MissingPeerError: Maven or Java is missing.
    """
    names = [cls.__name__ for cls in message_classes()]
    newer = [name for name in names if name.startswith(NEWER)]
    old = ["codes", *(name for name in names if name not in newer)]
    source = str(HERE / "WriteMessages.java")
    return java.run_java(maven.classpath(CLIENT), source, old) + java.run_java(
        maven.classpath(NEWER_CLIENT), source, ["messages", *newer]
    )


def read_data() -> str:
    """Return the committed lines."""
    return gzip.decompress(DATA.read_bytes()).decode()


def main() -> None:
    out = io.BytesIO()
    # Without a time, so that the same lines are the same file.
    with gzip.GzipFile(fileobj=out, mode="wb", compresslevel=9, mtime=0) as file:
        file.write(write_messages().encode())
    DATA.write_bytes(out.getvalue())
    print(f"{DATA}: {len(out.getvalue()):,} bytes")


if __name__ == "__main__":
    main()
