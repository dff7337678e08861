"""Small files of keys and values that describe a directory.

`partition.metadata`, in a partition's directory: the id of its topic (KIP-516). Two lines in UTF-8::

    version: 0
    topic_id: <22 characters: 16 bytes in base64url, without padding>

A broker writes it when it creates the partition, and syncs it with the log's first flush. A power failure before that
leaves an empty file, which has no meaning.

`meta.properties`, at the top of a log directory: the broker that owns it. A Java properties file in UTF-8 with
`version` (0; 1
for KRaft), `cluster.id` and `broker.id` (`node.id` for KRaft), written once, atomically::

    #
    version=0
    broker.id=0
    cluster.id=q0TEtQH5S8yDZ

`.kafka_cleanshutdown`, at the top of a log directory: everything in it is flushed and checkpointed. JSON,
`{"version":0,"brokerEpoch":-1}`; older brokers leave it empty. It is written last at a clean stop and removed first
at a start, so it does not exist after a crash.

`kafkalog.moved-from`, in the complete copy of a partition that a move between log directories has made: the log
directory that it is moved from. Two lines, `version: 0` and `log_dir: <absolute path>`. It is synced before the
copy may replace the original, and removed once the renaming of the old directory is synced too. Apache Kafka ignores
it.

`kafkalog.stray`, in the directory of a replica that is not in use (`…-stray`): three lines, `version: 0`,
`since_ms: <milliseconds since the epoch>` and `reason: <text>`. It is synced before the directory gets that name.
"""

from __future__ import annotations

import base64
import json
import uuid
from collections.abc import Mapping
from typing import NamedTuple

from kafkalog.storage.checkpoints import CorruptCheckpointError

VERSION = 0


# -- partition.metadata ------------------------------------------------------------------------------------------------


def encode_uuid(value: uuid.UUID) -> str:
    """Return Kafka's text of a UUID: its 16 bytes in base64url without padding, 22 characters."""
    return base64.urlsafe_b64encode(value.bytes).rstrip(b"=").decode()


def decode_uuid(text: str) -> uuid.UUID:
    """Parse Kafka's text of a UUID.

    Raises:
        ValueError: The text is not 16 bytes in base64url.
    """
    return uuid.UUID(bytes=base64.b64decode(text.strip() + "==", altchars=b"-_", validate=True))


def parse_partition_metadata(data: bytes) -> uuid.UUID | None:
    """Parse `partition.metadata` into the topic id; None for an empty file.

    Raises:
        CorruptCheckpointError: The file cannot be parsed.
    """
    try:
        values = dict(line.partition(":")[::2] for line in data.decode().splitlines() if line.strip())
    except UnicodeDecodeError as error:
        raise CorruptCheckpointError(f"not text: {error}") from error
    if not values:
        return None
    try:
        if int(values["version"]) != VERSION:
            raise CorruptCheckpointError(f"unknown version {values['version']}")
        return decode_uuid(values["topic_id"])
    except (KeyError, ValueError) as error:
        raise CorruptCheckpointError(f"does not read as partition metadata: {error}") from error


def format_partition_metadata(topic_id: uuid.UUID) -> bytes:
    """Return the bytes of `partition.metadata`."""
    return f"version: {VERSION}\ntopic_id: {encode_uuid(topic_id)}".encode()


# -- meta.properties and .kafka_cleanshutdown --------------------------------------------------------------------------


def parse_meta_properties(data: bytes) -> dict[str, str]:
    """Parse `meta.properties` into its keys and values.

    Raises:
        UnicodeDecodeError: The file is not text.
    """
    lines = (line for line in data.decode().splitlines() if line.strip() and not line.lstrip().startswith(("#", "!")))
    rows = (line.partition("=") for line in lines)
    return {key.strip(): value.strip().replace("\\:", ":").replace("\\=", "=") for key, _, value in rows}


def format_meta_properties(values: Mapping[str, str]) -> bytes:
    """Return the bytes of `meta.properties`."""
    return ("#\n" + "".join(f"{key}={value}\n" for key, value in values.items())).encode()


def format_clean_shutdown(broker_epoch: int = -1) -> bytes:
    """Return the bytes of `.kafka_cleanshutdown`."""
    return json.dumps({"version": VERSION, "brokerEpoch": broker_epoch}, separators=(",", ":")).encode()


# -- kafkalog.moved-from -----------------------------------------------------------------------------------------------


def parse_moved_from(data: bytes) -> str | None:
    """Return the log directory that a partition was moved from; None if the file does not name one."""
    lines = data.decode(errors="surrogateescape").splitlines()
    values = dict(line.split(": ", 1) for line in lines if ": " in line)
    return values.get("log_dir") if values.get("version") == str(VERSION) else None


def format_moved_from(log_dir: str) -> bytes:
    """Return the bytes of `kafkalog.moved-from`."""
    return f"version: {VERSION}\nlog_dir: {log_dir}\n".encode(errors="surrogateescape")


class Stray(NamedTuple):
    """The content of `kafkalog.stray`, about a replica that was taken out of use."""

    since_ms: int
    """The time at which it was taken out of use, in milliseconds since the epoch."""
    reason: str


def parse_stray(data: bytes) -> Stray | None:
    """Return what the file says; None if it cannot be read."""
    lines = data.decode(errors="replace").splitlines()
    values = dict(line.split(": ", 1) for line in lines if ": " in line)
    since = values.get("since_ms", "")
    if values.get("version") != str(VERSION) or not since.isascii() or not since.isdigit():
        return None
    return Stray(int(since), values.get("reason", ""))


def format_stray(stray: Stray) -> bytes:
    """Return the bytes of `kafkalog.stray`."""
    reason = " ".join(stray.reason.splitlines())
    return f"version: {VERSION}\nsince_ms: {stray.since_ms}\nreason: {reason}\n".encode()
