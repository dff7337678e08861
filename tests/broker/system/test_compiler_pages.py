"""Test that kernels still work after the compiler's pages were returned to the system."""

from __future__ import annotations

import subprocess
import sys

import pytest

SCRIPT = """
from broker.system.compiler_pages import release
from kafkalog.records.kernels import loader
from kafkalog.records.batch import Record, encode_batch
from kafkalog.records.validate import validate_batch
import numba, psutil
loader.load()
before = psutil.Process().memory_info().rss
told = release()
after = psutil.Process().memory_info().rss
batch = encode_batch([Record(0, 1, None, b"value", ())])
assert validate_batch(batch).records_count == 1
assert numba.njit(lambda x: x + 1)(1) == 2, "the compiler works too"
print(told, before - after)
"""


@pytest.mark.usefixtures("processes")
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="asks for Linux's madvise and /proc")
def test_pages_are_given_back() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stderr
    told, freed = map(int, done.stdout.split())
    assert told > 0
    assert freed > 0
