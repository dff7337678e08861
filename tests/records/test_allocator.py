"""Memory of decompressed batches is kept, not cleared anew by the system for each."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

SCRIPT = """
import resource
from kafkalog.records.allocator import keep_freed_memory
from kafkalog.records.compression import Codec, compress, decompress
assert keep_freed_memory()
data = compress(Codec.LZ4, bytes(range(256)) * 8192)
def faults():
    blocks = [decompress(Codec.LZ4, data) for _ in range(3)]
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
faults()
before = faults()
print([faults() for _ in range(20)][-1] - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the setting is glibc's")
def test_blocks_are_used_again() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stderr
    # Taken anew, three blocks of 2 MiB cost 1,536 faults each time.
    assert int(done.stdout) < 1536
