"""`python -m kafkalog.records.kernels.store.child FD KERNEL…`: compile kernels, and write them to standard output.

For each kernel it writes the length (uint32, big-endian) and the bytes. FD is the reading end of a pipe whose writing
end only the parent has: when the parent ends, however it ends, so does this process.
"""

from __future__ import annotations

import os
import struct
import sys
import threading

LENGTH = struct.Struct(">I")


def main(descriptor: int, names: list[str]) -> None:
    def end_with_parent() -> None:
        os.read(descriptor, 1)
        os._exit(1)

    threading.Thread(target=end_with_parent, daemon=True).start()
    output = os.fdopen(os.dup(1), "wb")
    # What libraries print must not come between the kernels.
    os.dup2(2, 1)
    from kafkalog.records.kernels.store import groups, results

    for _, kernel, signature in groups.kernels(names):
        data = results.compiled(kernel, signature)
        output.write(LENGTH.pack(len(data)) + data)
    output.flush()


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
