"""`python -m kafkalog.records.warm`: compile the record kernels into numba's disk cache, or find them there."""

from __future__ import annotations

import time

from . import kernels


def main() -> None:
    started = time.monotonic()
    kernels.load()
    print(f"record kernels ready after {time.monotonic() - started:.1f} s")


if __name__ == "__main__":
    main()
