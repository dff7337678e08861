"""Test that a process keeps freed memory of decompressed batches only if asked, and up to the limit."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

MIB = 1 << 20
SCRIPT = """
import resource, sys
from spark_kafkalog.executor.allocator import keep_freed_memory
from kafkalog.records.compression import Codec, compress, decompress

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()

if most := int(sys.argv[1]):
    assert keep_freed_memory(most)
data = compress(Codec.LZ4, bytes(range(256)) * 32768)
decompress(Codec.LZ4, data)
before = resident()
blocks = [decompress(Codec.LZ4, data) for _ in range(16)]
held = resident() - before
del blocks
print(held, resident() - before)
"""


def held_and_kept(most: int) -> tuple[int, int]:
    """Bytes that 16 decompressed blocks of 8 MiB take, and what is left of them when they are freed."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(most)], capture_output=True, text=True, timeout=280, check=False
    )
    assert done.returncode == 0, done.stderr
    held, kept = map(int, done.stdout.split())
    assert held >= 120 * MIB
    return held, kept


@pytest.mark.usefixtures("processes")
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the setting is glibc's")
@pytest.mark.parametrize(
    ("most", "least_kept", "most_kept"),
    # Of more than was asked for all is given back, not the excess alone.
    [
        (0, -64 * MIB, 32 * MIB),
        (64 * MIB, -64 * MIB, 72 * MIB),
        (256 * MIB, 100 * MIB, 200 * MIB),
        (1 << 40, 100 * MIB, 200 * MIB),
    ],
    ids=["without the setting", "more than was asked for", "less than was asked for", "any amount"],
)
def test_freed_memory_is_kept_as_asked(most: int, least_kept: int, most_kept: int) -> None:
    _, kept = held_and_kept(most)
    assert least_kept <= kept <= most_kept
