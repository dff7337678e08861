"""Whether bytes of a file are in memory, and getting them there.

``sendfile`` of pages that are not in the page cache waits for the disk, and with it would wait the event loop and
every client on it. So the loop asks first, and has a worker thread read what is missing (DESIGN D3).
"""

from __future__ import annotations

import os

_PIECE = 1 << 20
_NOWAIT: int = getattr(os, "RWF_NOWAIT", 0)


def resident(fd: int, position: int, length: int) -> bool:
    """Whether the first and the last byte can be read without waiting for the disk.

    Reads of a log go forward and the kernel reads ahead, so what lies between them is as they are. True where the
    system cannot tell: macOS, and file systems without RWF_NOWAIT.
    """
    if not _NOWAIT:
        return True
    probe = bytearray(1)
    try:
        os.preadv(fd, [probe], position, _NOWAIT)
        os.preadv(fd, [probe], position + length - 1, _NOWAIT)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


def read_in(fd: int, position: int, length: int) -> None:
    """Have the bytes read into the page cache. Blocks: for a worker's thread.

    Raises:
        OSError: the disk failed.
    """
    end = position + length
    if hasattr(os, "posix_fadvise"):
        os.posix_fadvise(fd, position, length, os.POSIX_FADV_WILLNEED)
    while position < end:
        count = len(os.pread(fd, min(_PIECE, end - position), position))
        if count == 0:
            return
        position += count
