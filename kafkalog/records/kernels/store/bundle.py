"""The form of a file of compiled kernels: a header in JSON that says what they are for, and the kernels' bytes.

    magic (8 bytes) | length of the header (uint32, big-endian) | header | kernels, one after another

The header has the fingerprint, the processor, and the name, length and SHA-256 of each kernel.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Mapping

from kafkalog.records.kernels.store.processors import Processor

_MAGIC = b"kafkalK1"
_LENGTH = struct.Struct(">I")


class BundleError(Exception):
    """The bytes are damaged, or the kernels are for something else; the message says which."""


def encode(parts: Mapping[str, bytes], fingerprint: Mapping[str, str], processor: Processor) -> bytes:
    """Return the file of these kernels, which are given by name."""
    header = json.dumps(
        {
            "fingerprint": dict(fingerprint),
            "processor": list(processor),
            "kernels": [[name, len(part), hashlib.sha256(part).hexdigest()] for name, part in parts.items()],
        }
    ).encode()
    return b"".join((_MAGIC, _LENGTH.pack(len(header)), header, *parts.values()))


def decode(
    data: bytes, names: tuple[str, ...], fingerprint: Mapping[str, str], processor: Processor
) -> dict[str, bytes]:
    """Return the bytes of the kernels of these names.

    Raises:
        BundleError: The file is damaged, is for another fingerprint or processor, or lacks a kernel.
    """
    start = len(_MAGIC) + _LENGTH.size
    if data[: len(_MAGIC)] != _MAGIC or len(data) < start:
        raise BundleError("it is no file of compiled kernels")
    (size,) = _LENGTH.unpack_from(data, len(_MAGIC))
    try:
        header = json.loads(data[start : start + size])
        found, made_for = header["fingerprint"], Processor(*header["processor"])
        listed = [(str(name), int(length), str(digest)) for name, length, digest in header["kernels"]]
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise BundleError("its header is damaged") from error
    if found != dict(fingerprint) or made_for != processor:
        raise BundleError("it is for other versions or another processor")
    parts: dict[str, bytes] = {}
    at = start + size
    for name, length, digest in listed:
        part = data[at : at + max(length, 0)]
        if hashlib.sha256(part).hexdigest() != digest:
            raise BundleError(f"its kernel {name} is damaged")
        parts[name] = part
        at += length
    missing = set(names) - set(parts)
    if missing:
        raise BundleError(f"it has no kernel {', '.join(sorted(missing))}")
    return {name: parts[name] for name in names}
