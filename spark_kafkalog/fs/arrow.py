"""Object stores and other file systems of `pyarrow.fs`, to read only."""

from __future__ import annotations

from typing import Any

from spark_kafkalog.fs.interface import Entry, File, FileSystem


class _ArrowFile:
    def __init__(self, file: Any) -> None:
        self._file = file
        self.size = file.size()

    def read(self, at: int, size: int) -> memoryview:
        size = max(min(size, self.size - at), 0)
        return memoryview(self._file.read_at(size, at))

    def close(self) -> None:
        self._file.close()


class ArrowFiles(FileSystem):
    """Any file system of `pyarrow.fs`."""

    def __init__(self, root: str) -> None:
        from pyarrow import fs

        try:
            self._fs, self._base = fs.FileSystem.from_uri(root + "/")
        except Exception as error:
            raise ValueError(f"no file system for {root}: {error}") from None
        self._root = root

    def stat(self, path: str) -> Entry | None:
        info = self._fs.get_file_info(self._inside(path))
        return None if info.type.name == "NotFound" else self._entry(info)

    def entries(self, directory: str) -> list[Entry]:
        from pyarrow import fs

        return sorted(self._entry(each) for each in self._fs.get_file_info(fs.FileSelector(self._inside(directory))))

    def open(self, path: str) -> File:
        return _ArrowFile(self._fs.open_input_file(self._inside(path)))

    def _inside(self, path: str) -> str:
        inside: str = self._base.rstrip("/") + path[len(self._root) :]
        return inside.rstrip("/") or inside

    def _entry(self, info: Any) -> Entry:
        path = self._root + info.path[len(self._base.rstrip("/")) :]
        return Entry(info.base_name, path, info.type.name == "Directory", info.size or 0, info.mtime_ns or 0)
