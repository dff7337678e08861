"""HDFS through hdfs-native, a client that connects to the NameNode and DataNodes itself: no libhdfs, no JVM.

`rename` is the NameNode's rename2 without OVERWRITE: one edit under the namespace's lock, which fails if the target
exists, even as an empty directory. (The older `FileSystem.rename` would move the source *into* an existing
directory.) `close` comes after `hsync`, so a file's blocks are on the DataNodes' disks before it is published. The
NameNode logs every rename before it answers.

Names of nameservices (HA), Kerberos and further settings come from `core-site.xml` and `hdfs-site.xml` in
`HADOOP_CONF_DIR`. Kerberos uses the ticket cache of the process; without it, `HADOOP_USER_NAME` names the user.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any

from spark_kafkalog.fs.hadoop_umask import default_acls_replace_it, umask
from spark_kafkalog.fs.interface import Entry, File, Files
from spark_kafkalog.fs.paths import split
from spark_kafkalog.process_cache import ProcessCache

if TYPE_CHECKING:
    from typing_extensions import Buffer

CLIENTS: ProcessCache[str, Any] = ProcessCache(8)
"""hdfs-native's clients by address, of this process."""
_ATTEMPTS = 4
"""Attempts of a call to a single NameNode, if nothing else is configured: about ten seconds. hdfs-native's default, 15,
is meant for a failover, and takes three minutes to report a wrong port."""


class MissingClientError(OSError):
    """hdfs-native is not installed; the message says how to install it."""


@dataclass(frozen=True)
class HdfsFiles(Files):
    """A file system of HDFS. `address`: hdfs://host:port, or hdfs://nameservice."""

    address: str

    @property
    def _client(self) -> Any:
        return CLIENTS.get(self.address, self._connect)

    def _connect(self) -> Any:
        try:
            from hdfs_native import Client
        except ImportError:
            raise MissingClientError(
                "hdfs:// needs the package hdfs-native, here and on every executor: pip install 'kafkalog[hdfs]'"
            ) from None
        with _os_errors(self.address):
            alone = ":" in self.address.removeprefix("hdfs://") and "HADOOP_CONF_DIR" not in os.environ
            settings = {"dfs.client.failover.max.attempts": str(_ATTEMPTS)} if alone else None
            return Client(self.address, settings)

    def url(self, path: str) -> str:
        return self.address + _within(path)

    def create(self, path: str) -> io.RawIOBase:
        with _os_errors(self.url(path)):
            return _Output(self._create(path), self.url(path))

    def replace(self, path: str, data: bytes) -> None:
        with _os_errors(self.url(path)):
            file = self._create(path, overwrite=True)
            file.write(data)
            file.close()

    def _create(self, path: str, *, overwrite: bool = False) -> Any:
        from hdfs_native import WriteOptions

        inside = _within(path)
        options = WriteOptions(permission=self._mode(inside, 0o666), overwrite=overwrite, create_parent=False)
        return self._client.create(inside, options)

    def _mode(self, inside: str, most: int) -> int:
        """Return the permissions to ask for: `most`, without those of the umask unless the parent has a default ACL.

        Hadoop's own clients send both, and leave the choice to the NameNode (`FSDirectory.copyINodeDefaultAcl`).
        hdfs-native sends one.
        """
        mask = umask()
        return most if mask and default_acls_replace_it() and self._has_default_acl(inside) else most & ~mask

    def _has_default_acl(self, inside: str) -> bool:
        """Return whether what is made at a path inherits a default ACL from the nearest directory above that exists."""
        while inside != "/":
            inside = inside.rpartition("/")[0] or "/"
            try:
                return any(each.scope == "default" for each in self._client.get_acl_status(inside).entries)
            except FileNotFoundError:
                continue
            except (RuntimeError, OSError) as error:
                if "AclException" in str(error):
                    # ACLs are switched off on this NameNode (`dfs.namenode.acls.enabled`).
                    return False
                raise
        return False

    def open(self, path: str) -> File:
        return HdfsFile(self.stream(path))

    def stream(self, path: str) -> IO[bytes]:
        with _os_errors(self.url(path)):
            return io.BufferedReader(_Input(self._client.read(_within(path)), self.url(path)), 1 << 20)

    def make_directories(self, path: str) -> None:
        with _os_errors(self.url(path)):
            inside = _within(path)
            self._client.mkdirs(inside, self._mode(inside, 0o777), create_parent=True)

    def entries(self, directory: str) -> list[Entry]:
        inside = _within(directory)
        with _os_errors(self.url(directory)):
            # The request is sent when the result is iterated over.
            found = list(self._client.list_status(inside))
        return sorted(self._entry(f"{inside.rstrip('/')}/{each.path.rpartition('/')[2]}", each) for each in found)

    def stat(self, path: str) -> Entry | None:
        inside = _within(path)
        with _os_errors(self.url(path)):
            try:
                return self._entry(inside, self._client.get_file_info(inside))
            except FileNotFoundError:
                return None

    def rename(self, source: str, target: str) -> None:
        try:
            with _os_errors(self.url(source)):
                self._client.rename(_within(source), _within(target), overwrite=False)
        except OSError as error:
            if error.errno is None and "must both be directories" in str(error):
                # The NameNode checks this first if source and existing target are a file and a directory.
                raise FileExistsError(errno.EEXIST, str(error), self.url(target)) from None
            raise

    def delete(self, path: str) -> None:
        with _os_errors(self.url(path)):
            self._client.delete(_within(path), recursive=True)

    def remove_empty(self, path: str) -> None:
        try:
            with _os_errors(self.url(path)):
                self._client.delete(_within(path), recursive=False)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.ENOENT):
                raise

    def sync_tree(self, path: str) -> None:
        """Do nothing: the NameNode logs every change before it answers."""

    def sync(self, path: str) -> None:
        """Do nothing: the NameNode logs every change before it answers."""

    def _entry(self, inside: str, status: Any) -> Entry:
        name = inside.rpartition("/")[2]
        return Entry(name, self.url(inside), status.isdir, status.length, status.modification_time * 1_000_000)


def _within(path: str) -> str:
    """Return the path within the file system, unchanged: Hadoop decodes nothing in it."""
    return split(path)[1].rstrip("/") or "/"


class HdfsFile:
    """A file that several threads may position: one reads ahead while another examines damaged bytes."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._lock = threading.Lock()
        self.size = file.seek(0, io.SEEK_END)

    def read(self, at: int, size: int) -> memoryview:
        with self._lock:
            self._file.seek(at)
            return memoryview(self._file.read(max(min(size, self.size - at), 0)))

    def close(self) -> None:
        self._file.close()


class _Output(io.RawIOBase):
    def __init__(self, file: Any, path: str) -> None:
        self._file = file
        self._path = path

    def writable(self) -> bool:
        return True

    def write(self, data: Buffer, /) -> int:
        with _os_errors(self._path):
            self._file.write(data)
        return memoryview(data).nbytes

    def close(self) -> None:
        if self.closed:
            return
        try:
            with _os_errors(self._path):
                try:
                    self._file.hsync()
                finally:
                    self._file.close()
        finally:
            super().close()


class _Input(io.RawIOBase):
    """hdfs-native's reader with the interface that BufferedReader needs."""

    def __init__(self, file: Any, path: str) -> None:
        self._file = file
        self._path = path

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._file.tell(), io.SEEK_END: len(self._file)}[whence]
        at: int = base + offset
        self._file.seek(at)
        return at

    def tell(self) -> int:
        at: int = self._file.tell()
        return at

    def readinto(self, buffer: Any, /) -> int:
        view = memoryview(buffer).cast("B")
        wanted = min(len(view), len(self._file) - self.tell())
        if wanted <= 0:
            return 0
        with _os_errors(self._path):
            data = self._file.read(wanted)
        view[: len(data)] = data
        return len(data)


_EXCEPTIONS = {
    "AccessControlException": (errno.EACCES, PermissionError),
    "PathIsNotEmptyDirectoryException": (errno.ENOTEMPTY, OSError),
    "QuotaExceededException": (errno.EDQUOT, OSError),
    "NSQuotaExceededException": (errno.EDQUOT, OSError),
    "DSQuotaExceededException": (errno.EDQUOT, OSError),
    "SafeModeException": (errno.EROFS, OSError),
}


@contextlib.contextmanager
def _os_errors(path: str) -> Iterator[None]:
    """Convert hdfs-native's errors to OSErrors of one line, without the server's stack traces."""
    try:
        yield
    except (FileNotFoundError, FileExistsError, PermissionError) as error:
        number = {FileNotFoundError: errno.ENOENT, FileExistsError: errno.EEXIST}.get(type(error), errno.EACCES)
        raise type(error)(number, _first_line(error), path) from None
    except MissingClientError:
        raise
    except (RuntimeError, OSError, ValueError) as error:
        text = str(error)
        for name, (number, kind) in _EXCEPTIONS.items():
            if name in text:
                raise kind(number, _first_line(error), path) from None
        raise OSError(f"{path}: {_first_line(error)}") from error


_RPC_ERROR = re.compile(r'RPCError\("[\w.$]+", "(.*)', re.DOTALL)


def _first_line(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        text = error.strerror
    else:
        text = str(error)
    text = text.replace("\\n", "\n").replace("\\t", "\t").replace('\\"', '"')
    if match := _RPC_ERROR.search(text):
        text = match[1]
    return text.split("\n")[0].strip()
