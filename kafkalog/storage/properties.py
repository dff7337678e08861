"""Small files of keys and values that say what a directory is.

``partition.metadata``, in a partition's directory: the id of its topic (KIP-516). Two lines in UTF-8::

    version: 0
    topic_id: <22 characters: 16 bytes in base64url, without padding>

A broker writes it when it makes the partition, and forces it to the device with the log's first flush. A power failure
before that leaves an empty file, which says nothing.

``meta.properties``, at the top of a log directory: whose it is. A Java properties file in UTF-8 with ``version`` (0; 1
for KRaft), ``cluster.id`` and ``broker.id`` (``node.id`` for KRaft), written once, atomically::

    #
    version=0
    broker.id=0
    cluster.id=q0TEtQH5S8yDZ

``.kafka_cleanshutdown``, at the top of a log directory: everything there is on the device and checkpointed. JSON,
``{"version":0,"brokerEpoch":-1}``; older brokers leave it empty. Written as the last act of a clean stop, removed as
the first of a start, so after a crash it is not there.

``kafkalog.moved-from``, in a partition's directory that a move between log directories has made, and which is complete:
the log directory that it is moved from. Two lines, ``version: 0`` and ``log_dir: <absolute path>``. It is on the device
before the directory may take its log's place, and removed once the old directory's new name is on the device, too.
Apache Kafka ignores it.
"""

from __future__ import annotations

import base64
import json
import uuid
from collections.abc import Mapping

from kafkalog.storage.checkpoints import CorruptCheckpointError

VERSION = 0


# -- partition.metadata ------------------------------------------------------------------------------------------------


def encode_uuid(value: uuid.UUID) -> str:
    """Kafka's text of a uuid: its 16 bytes in base64url without padding, 22 characters."""
    return base64.urlsafe_b64encode(value.bytes).rstrip(b"=").decode()


def decode_uuid(text: str) -> uuid.UUID:
    """The uuid of its 22 characters.

    Raises:
        ValueError: it is not 16 bytes of base64url.
    """
    return uuid.UUID(bytes=base64.b64decode(text.strip() + "==", altchars=b"-_", validate=True))


def parse_partition_metadata(data: bytes) -> uuid.UUID | None:
    """The topic id, or None for an empty file.

    Raises:
        CorruptCheckpointError: the file does not read as one.
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
    """The bytes of ``partition.metadata``."""
    return f"version: {VERSION}\ntopic_id: {encode_uuid(topic_id)}".encode()


# -- meta.properties and .kafka_cleanshutdown --------------------------------------------------------------------------


def parse_meta_properties(data: bytes) -> dict[str, str]:
    """Keys of ``meta.properties``.

    Raises:
        UnicodeDecodeError: it is not text.
    """
    lines = (line for line in data.decode().splitlines() if line.strip() and not line.lstrip().startswith(("#", "!")))
    rows = (line.partition("=") for line in lines)
    return {key.strip(): value.strip().replace("\\:", ":").replace("\\=", "=") for key, _, value in rows}


def format_meta_properties(values: Mapping[str, str]) -> bytes:
    """The bytes of ``meta.properties``."""
    return ("#\n" + "".join(f"{key}={value}\n" for key, value in values.items())).encode()


def format_clean_shutdown(broker_epoch: int = -1) -> bytes:
    """The bytes of the marker that a clean stop leaves."""
    return json.dumps({"version": VERSION, "brokerEpoch": broker_epoch}, separators=(",", ":")).encode()


# -- kafkalog.moved-from -----------------------------------------------------------------------------------------------


def parse_moved_from(data: bytes) -> str | None:
    """The log directory that a partition was moved from; None where the file does not say."""
    lines = data.decode(errors="surrogateescape").splitlines()
    values = dict(line.split(": ", 1) for line in lines if ": " in line)
    return values.get("log_dir") if values.get("version") == str(VERSION) else None


def format_moved_from(log_dir: str) -> bytes:
    """The bytes of ``kafkalog.moved-from``."""
    return f"version: {VERSION}\nlog_dir: {log_dir}\n".encode(errors="surrogateescape")
