"""Message sets of formats v0 and v1 that a leader receives, and all records for a topic that stores these formats.

The checks are those of Kafka's LogValidator: sizes and checksums of the entries; that all have one format; that a
compressed message is alone; then format, checksum, key and timestamp of every record within. Records that already have
the topic's format and codec are appended as they are, except for their offsets. All others are written anew and counted
as converted. This includes compressed messages of v0, because their offsets lie inside of the compressed data.

`prepare_set` needs no log and may run on a worker, because it takes microseconds for each record. The log then assigns
the offsets at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice

from broker.log.append.record_errors import as_protocol_error
from broker.log.append.rejection import RecordRules
from broker.log.append.validation import (
    TARGET_CODECS,
    CheckedBatch,
    Origin,
    check_size,
    prepare_ahead,
    refuse_append_time,
    refuse_length,
)
from broker.log.log_config import LOG_APPEND_TIME, LogConfig
from kafkalog.protocol.errors import (
    InvalidRecordError,
    UnsupportedCompressionTypeError,
    UnsupportedForMessageFormatError,
)
from kafkalog.records import errors as records_errors
from kafkalog.records.any_format import read_any_header, verify_any_crc
from kafkalog.records.batch import (
    CODEC_MASK,
    HEADER_SIZE,
    MAGIC,
    MAGIC_AT,
    NO_TIMESTAMP,
    BatchHeader,
    Record,
    decode_batch,
    encode_batch,
    pack_header,
    set_create_time,
)
from kafkalog.records.compression import DEFAULT_MAX_SIZE, Codec, compress, refuse_dependent_blocks
from kafkalog.records.legacy import upgrade
from kafkalog.records.legacy.message_set import (
    MAGIC_V0,
    MIN_ENTRY_SIZE,
    codec_of,
    decode_entry,
    encode_message_set,
    iter_entries,
    set_offset,
    set_timestamp,
    wrapped_set,
)
from kafkalog.records.validate import check_batch


@dataclass(slots=True)
class Entry:
    """Describe one message, or wrapper message, of a set to be appended."""

    position: int
    size: int
    last: int
    """Its last offset, counted from the first offset of the set."""
    max_timestamp: int


@dataclass(slots=True)
class PreparedSet:
    """Hold checked entries of format v0 or v1 that lack only their offsets; or one v2 batch.

    `converted` counts the records that were written anew in the format that the topic stores.
    """

    data: bytearray | memoryview
    magic: int
    count: int
    converted: int
    max_timestamp: int
    entries: list[Entry] = field(default_factory=list)
    _within: tuple[Sequence[Record], Codec, int | None] | None = None
    """Records, codec and level of a compressed v0 set, which is encoded once its offsets are known."""
    _checked: tuple[CheckedBatch, LogConfig] | None = None
    """A v2 batch that `check` has checked, and the settings that it went by."""

    def check(self, config: LogConfig, now_ms: int, origin: Origin, label: str) -> None:
        """Check a v2 batch as an append would, and give it the topic's timestamp type.

        Raises:
            KafkaError: it is refused.
        """
        self._checked = prepare_ahead(memoryview(self.data), config, now_ms, origin, label), config

    def batch(self, config: LogConfig) -> CheckedBatch | memoryview:
        """Return the v2 batch; one that has still to be checked if it was not checked for `config`."""
        data = memoryview(self.data)
        if self._checked is None:
            return data
        checked, checked_for = self._checked
        if checked_for == config:
            return checked
        if checked.header.is_log_append_time:
            # Whether the broker sets the timestamp is decided again. The check finds the largest one of the records.
            set_create_time(data, 0, checked.header.base_timestamp)
        return data

    def assign(self, first: int) -> None:
        """Set the offsets of the records; the first one gets `first`."""
        if self._within is not None:
            records, codec, level = self._within
            records = [record._replace(offset=first + at) for at, record in enumerate(records)]
            self.data = encode_message_set(records, magic=MAGIC_V0, codec=codec, level=level)
            self.entries = [Entry(0, len(self.data), self.count - 1, self.max_timestamp)]
            return
        for entry in self.entries:
            set_offset(self.data, entry.position, first + entry.last)


def prepare_set(records: memoryview, config: LogConfig, now_ms: int, origin: Origin, label: str) -> PreparedSet | None:
    """Check what a producer sent, and convert it to what the topic stores.

    Args:
        records: entries of v0 or v1, or one v2 batch. It must be writable, because entries that need no conversion are
            changed in place. An incomplete entry at the end is left out.

    Returns:
        The set to append, or None if there is no whole entry.

    Raises:
        KafkaError: the set is refused; the subclass is the error that the client gets.
    """
    try:
        prepared = _upgraded_wrapper(records, config, now_ms, origin)
        if prepared is not None:
            prepared.check(config, now_ms, origin, label)
            return prepared
        source: _Source | None
        if len(records) > MAGIC_AT and records[MAGIC_AT] >= MAGIC:
            source = _check_new(records, config, origin, label)
        else:
            source = _check_old(records, config, origin, label)
        if source is None:
            return None
        _check_records(source, config, now_ms, origin, label)
        prepared = _as_stored(source, config, now_ms)
    except records_errors.RecordsError as error:
        raise as_protocol_error(error, label) from error
    if prepared.magic == MAGIC:
        prepared.check(config, now_ms, origin, label)
        return prepared
    for entry in prepared.entries:
        check_size(entry.size, config, label)
    check_size(len(prepared.data), config.with_changes(max_message_bytes=len(prepared.data)), label)
    return prepared


def _upgraded_wrapper(records: memoryview, config: LogConfig, now_ms: int, origin: Origin) -> PreparedSet | None:
    """Convert a single compressed message for a topic of v2 in one pass.

    Return None if `records` is something else, or has to be refused.
    """
    if config.message_format < MAGIC or len(records) < MIN_ENTRY_SIZE or records[MAGIC_AT] >= MAGIC:
        return None
    headers = list(islice(iter_entries(records), 2))
    if len(headers) != 1:
        return None
    header = headers[0][1]
    if not header.attributes & CODEC_MASK or header.is_log_append_time:
        return None
    if header.size > min(config.max_message_bytes, config.segment_bytes):
        return None
    verify_any_crc(records, 0, header)
    source_codec = codec_of(header)
    messages = wrapped_set(records, 0, header, takes_dependent_blocks=False)
    if len(messages) >= upgrade.COMPILED_FROM:
        upgrade.load_in_background()
    section = upgrade.upgraded_section(header, messages, max_size=DEFAULT_MAX_SIZE)
    if section is None or (section.null_keys and config.requires_keys and origin is Origin.CLIENT):
        return None
    if config.message_timestamp_type != LOG_APPEND_TIME and section.earliest != NO_TIMESTAMP:
        early = now_ms - section.earliest > config.message_timestamp_before_max_ms
        if early or section.max_timestamp - now_ms > config.message_timestamp_after_max_ms:
            return None
    codec = source_codec if config.compression_type == "producer" else TARGET_CODECS[config.compression_type]
    latest = section.max_timestamp
    count = section.records_count
    wanted = BatchHeader(0, 0, -1, MAGIC, 0, int(codec), count - 1, section.base_timestamp, latest, -1, -1, -1, count)
    batch = pack_header(wanted, compress(codec, section.body, config.compression_level))
    stated = now_ms if config.message_timestamp_type == LOG_APPEND_TIME else latest
    return PreparedSet(batch, MAGIC, count, count, stated)


@dataclass(slots=True)
class _Source:
    """Hold the records as the producer sent them, in any format."""

    data: memoryview
    magic: int
    codec: Codec
    headers: list[tuple[int, BatchHeader]]
    records: list[Record]


def _check_old(records: memoryview, config: LogConfig, origin: Origin, label: str) -> _Source | None:
    headers = list(iter_entries(records))
    if not headers:
        return None
    codec = Codec.NONE
    for pos, header in headers:
        check_size(header.size, config, label)
        verify_any_crc(records, pos, header)
        codec = codec_of(header) or codec
    if codec and len(headers) > 1:
        raise InvalidRecordError(f"Compressed outer record has more than one batch in the append to {label}")
    magic = headers[0][1].magic
    found: list[Record] = []
    for pos, header in headers:
        if header.magic != magic:
            raise InvalidRecordError(
                f"Batch magic {header.magic} is not the same as the first batch's magic byte {magic} in topic "
                f"partition {label}"
            )
        if header.is_log_append_time and origin is not Origin.REPLICATION:
            refuse_append_time(label)
        found += decode_entry(records, pos, header, same_magic=True)
    end = headers[-1][0] + headers[-1][1].size
    return _Source(records[:end], magic, codec, headers, found)


def _check_new(records: memoryview, config: LogConfig, origin: Origin, label: str) -> _Source:
    """Check a v2 batch for a topic that stores an older format."""
    if len(records) < HEADER_SIZE:
        raise InvalidRecordError(f"{len(records)} bytes sent to {label} are no record batch")
    header = read_any_header(records)
    if header.size != len(records):
        refuse_length(header.size, len(records), label)
    check_size(header.size, config, label)
    from_client = origin is Origin.CLIENT
    if from_client and header.base_offset:
        raise InvalidRecordError(
            f"The baseOffset of the record batch in the append to {label} should be 0, but it is {header.base_offset}"
        )
    check_batch(records, allow_control=not from_client)
    refuse_dependent_blocks(header.codec, records[HEADER_SIZE:])
    for flag, kind in ((header.is_transactional, "Transactional"), (header.has_producer_id, "Idempotent")):
        if flag:
            raise UnsupportedForMessageFormatError(
                f"{kind} records cannot be used with magic version {config.message_format}, which "
                f"message.format.version of the topic of {label} asks for"
            )
    if header.is_control:
        raise UnsupportedForMessageFormatError(f"Control records cannot be used in {label}, by its message format")
    if header.codec is Codec.ZSTD and config.compression_type in ("producer", "zstd"):
        raise UnsupportedCompressionTypeError(
            f"ZStandard compression is not supported for magic {config.message_format}, the message format of {label}"
        )
    found = decode_batch(records, check_crc=False)[1]
    if any(record.headers for record in found):
        raise UnsupportedForMessageFormatError(
            f"Magic v{config.message_format} does not support record headers, so {label} cannot take records with any"
        )
    return _Source(records, MAGIC, header.codec, [(0, header)], found)


def _check_records(source: _Source, config: LogConfig, now_ms: int, origin: Origin, label: str) -> None:
    rules = RecordRules.of(config, now_ms, label, from_client=origin is Origin.CLIENT)
    facts = [(record.key is not None, record.timestamp) for record in source.records]
    # A message of an old format that is not compressed counts as a batch of its own; the first bad one decides.
    together = source.magic == MAGIC or source.codec
    is_append_time = source.magic == MAGIC and source.headers[0][1].is_log_append_time
    for batch in [facts] if together else ([fact] for fact in facts):
        rejection = rules.rejection(batch, is_append_time=is_append_time)
        if rejection is not None:
            raise rejection


def _as_stored(source: _Source, config: LogConfig, now_ms: int) -> PreparedSet:
    target, count = config.message_format, len(source.records)
    codec = source.codec if config.compression_type == "producer" else TARGET_CODECS[config.compression_type]
    append_time = now_ms if config.message_timestamp_type == LOG_APPEND_TIME else None
    if target and append_time is not None:
        latest = append_time
    else:
        latest = max(record.timestamp for record in source.records) if target else -1
    if codec == source.codec and source.magic == target and (not codec or _counts(source)):
        _stamp(source, append_time, latest)
        return PreparedSet(source.data, target, count, 0, latest, _entries(source.headers, count, append_time, latest))
    records = [record._replace(offset=at) for at, record in enumerate(source.records)]
    if target == MAGIC:
        # `check` sets a timestamp of the broker's clock.
        return PreparedSet(
            encode_batch(records, codec=codec, level=config.compression_level), MAGIC, count, count, latest
        )
    if codec and target == MAGIC_V0:
        return PreparedSet(bytearray(), target, count, count, latest, [], (records, codec, config.compression_level))
    data = encode_message_set(
        records, magic=target, codec=codec, level=config.compression_level, log_append_time=append_time
    )
    return PreparedSet(
        data, target, count, count, latest, _entries(list(iter_entries(data)), count, append_time, latest)
    )


def _counts(source: _Source) -> bool:
    """Return whether a compressed set is of v1 with offsets that count from 0: then only the wrapper's need be set."""
    return source.magic != MAGIC_V0 and all(record.offset == at for at, record in enumerate(source.records))


def _stamp(source: _Source, append_time: int | None, latest: int) -> None:
    """Set the timestamps of entries that are appended as they are.

    A wrapper message gets the largest timestamp within; with LogAppendTime every entry gets the broker's time.
    """
    if source.magic == MAGIC_V0:
        return
    for pos, header in source.headers:
        wanted = latest if append_time is not None or source.codec else header.max_timestamp
        if append_time is not None or header.max_timestamp != wanted:
            set_timestamp(source.data, pos, wanted, log_append_time=append_time is not None)


def _entries(headers: list[tuple[int, BatchHeader]], count: int, append_time: int | None, latest: int) -> list[Entry]:
    if len(headers) == 1:
        pos, header = headers[0]
        return [Entry(pos, header.size, count - 1, latest)]
    return [
        Entry(pos, header.size, at, header.max_timestamp if append_time is None or not header.magic else append_time)
        for at, (pos, header) in enumerate(headers)
    ]
