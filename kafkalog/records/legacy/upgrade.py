"""The messages of a compressed set of v0 or v1 as the records of one batch of v2, in one pass over the bytes.

A wrapper of 31 KB can hold half a million messages, and making each one a record before it is written again takes
seconds. A set with any defect is left to `message_set.decode_entry`, which raises the right error.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from kafkalog.records.batch import BatchHeader
from kafkalog.records.compression import Buffer
from kafkalog.records.kernels import loader
from kafkalog.records.kernels.abi import upgrade_layout as u
from kafkalog.records.kernels.plain import upgrading as plain

COMPILED_FROM = 64 * 1024
"""Sets of this many bytes use the compiled kernel; plain Python takes at most some 4 ms for smaller ones."""

_fast: Any = None


def load() -> None:
    """Load the compiled kernel, which is used from now on."""
    global _fast
    if _fast is None:
        loader.load("upgrading")
        from kafkalog.records.kernels.compiled import upgrading

        _fast = upgrading.upgrade_messages


def load_in_background() -> None:
    """Call `load` on a thread, the first time. Plain Python does the work meanwhile, and for good if loading fails."""
    if _fast is None:
        loader.in_background("upgrading", load)


class Section(NamedTuple):
    """Records of v2, uncompressed, whose offsets count from 0."""

    body: bytearray
    records_count: int
    base_timestamp: int
    max_timestamp: int
    earliest: int
    """The least timestamp of its records; -1 where none has one."""
    null_keys: int


def upgraded_section(wrapper: BatchHeader, data: Buffer, *, max_size: int) -> Section | None:
    """Return the message set `data` of `wrapper` as records of v2 with CreateTime; None if Python must read it.

    The result is None in these cases:

    - a message is incomplete, compressed, of another format than the wrapper, or has a wrong checksum;
    - the set is empty;
    - the v1 wrapper's offset is not 0 and is less than the last one within;
    - two timestamps differ by more than 64 bits can hold;
    - the records would take more than `max_size` bytes.
    """
    magic = wrapper.magic
    body = bytearray()
    if _fast is None:
        words: Any = [0] * u.WORDS
        sound = plain.upgrade_messages(data, magic, max_size, body, words)
    else:
        sound, words = _upgrade_compiled(data, magic, max_size, body)
    if not sound or not words[u.COUNT] or (magic and 0 != wrapper.base_offset < words[u.LAST_OFFSET]):
        return None
    return Section(
        body, int(words[u.COUNT]), int(words[u.FIRST_TIMESTAMP]), int(words[u.LATEST]), int(words[u.EARLIEST]),
        int(words[u.NULL_KEYS]),
    )  # fmt: skip


def _upgrade_compiled(data: Buffer, magic: int, max_size: int, body: bytearray) -> tuple[bool, Any]:
    import numpy as np

    words = np.zeros(u.WORDS, np.int64)
    if not len(data):
        return True, words
    target = np.empty(len(data), np.uint8)
    # The kernel is not compiled for writable arrays.
    source = np.frombuffer(memoryview(data).toreadonly(), np.uint8)
    sound = bool(_fast(source, magic, max_size, target, words))
    if sound:
        body += target[: words[u.SIZE]].data
    return sound, words
