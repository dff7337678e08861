"""`python -m kafkalog.records.warm`: compile the record kernels into numba's disk cache, unless they are there.

It takes all of them, or those that are named: `validation`, `cleaning`, `checking`, `upgrading`.
"""

from __future__ import annotations

import sys
import time

from kafkalog.records.kernels import loader

LOADERS = {
    "validation": loader.load_validation,
    "cleaning": loader.compile_cleaning,
    "checking": loader.load_checking,
    "upgrading": loader.compile_upgrading,
    "all": loader.load,
}


def main(names: list[str]) -> None:
    started = time.monotonic()
    for name in names or ("all", "cleaning", "checking", "upgrading"):
        LOADERS[name]()
    print(f"record kernels ready after {time.monotonic() - started:.1f} s")


if __name__ == "__main__":
    main(sys.argv[1:])
