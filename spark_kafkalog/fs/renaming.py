"""A local rename that never replaces its target.

`rename(2)` alone would replace an empty directory. So Linux gets `renameat2(RENAME_NOREPLACE)`, and macOS
`renamex_np(RENAME_EXCL)`. On a file system without these flags (some NFS), the target is checked before `rename`.
That `rename` also fails if the target is a directory that is not empty. Every published load holds its
`_offsets.json`, so two loads still cannot publish under one name.
"""

from __future__ import annotations

import ctypes
import errno
import functools
import os
import stat
import sys
from collections.abc import Callable

_AT_FDCWD = -100
_RENAME_NOREPLACE = 1
_RENAME_EXCL = 4
_UNSUPPORTED = (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP)


def rename_without_replacing(source: str, target: str) -> None:
    """Move a file or directory.

    Raises:
        FileExistsError: The target exists.
        OSError: The target exists, and the error number is ENOTEMPTY.
    """
    by_flag = _by_flag()
    if by_flag is not None:
        code = by_flag(os.fsencode(source), os.fsencode(target))
        if code == 0:
            return
        if code not in _UNSUPPORTED:
            raise OSError(code, os.strerror(code), source, None, target)
    rename_with_check(source, target)


def rename_with_check(source: str, target: str) -> None:
    """Check and rename, without a flag. May replace an empty directory that another process makes, never a full one."""
    if os.path.lexists(target):
        if _is_half_done(source, target):
            os.unlink(source)
            return
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), source, None, target)
    if os.path.isdir(source):
        os.rename(source, target)
    else:
        # A rename would replace a file; a link fails if the name is taken.
        os.link(source, target)
        os.unlink(source)


def _is_half_done(source: str, target: str) -> bool:
    """Return whether a process was killed between the two steps of this rename: both names link to the file."""
    try:
        first, second = os.lstat(source), os.lstat(target)
    except FileNotFoundError:
        return False
    return stat.S_ISREG(first.st_mode) and first.st_nlink > 1 and os.path.samestat(first, second)


@functools.cache
def _by_flag() -> Callable[[bytes, bytes], int] | None:
    """Return this system's rename that does not replace; it returns an error number."""
    library = ctypes.CDLL(None, use_errno=True)
    if sys.platform == "darwin" and hasattr(library, "renamex_np"):

        def rename_on_macos(source: bytes, target: bytes) -> int:
            return ctypes.get_errno() if library.renamex_np(source, target, ctypes.c_uint(_RENAME_EXCL)) else 0

        return rename_on_macos
    if sys.platform.startswith("linux") and hasattr(library, "renameat2"):

        def rename_on_linux(source: bytes, target: bytes) -> int:
            failed = library.renameat2(_AT_FDCWD, source, _AT_FDCWD, target, ctypes.c_uint(_RENAME_NOREPLACE))
            return ctypes.get_errno() if failed else 0

        return rename_on_linux
    return None
