"""PySpark's archives in PYTHONPATH, and the package that has the same code.

The JVM puts `pyspark.zip` and `py4j-…-src.zip` in front of what its Python processes import. They have no byte code, so
that each process compiles PySpark anew, which takes three times as long as importing it from the package that pip
installed beside them. A Python that leaves them out finds that package.
"""

from __future__ import annotations

import os
import zipimport
from collections.abc import Iterable
from pathlib import Path

_PYSPARK = "pyspark.zip"
_PACKED = (".zip", ".egg", ".whl")


def without_archives(python_path: str, import_path: Iterable[str]) -> str:
    """Return PYTHONPATH without the archives that belong to the PySpark of `import_path`.

    `import_path` has the directories that Python imports from after PYTHONPATH, such as `site-packages`. The archives
    stay unless the package that will be imported instead is the one that they lie in: then it is the same release.
    """
    entries = [entry for entry in python_path.split(os.pathsep) if entry]
    archives = {entry for entry in entries if _is_archive(entry)}
    pyspark = next((Path(entry) for entry in archives if Path(entry).name == _PYSPARK), None)
    if pyspark is None:
        return python_path
    others = [entry for entry in entries if entry not in archives]
    behind = [*others, *import_path]
    package = next((entry for entry in behind if _has(entry, "pyspark")), None)
    py4j = next((entry for entry in behind if _has(entry, "py4j")), None)
    if package is None or py4j is None or not _is_beside(pyspark, Path(package)):
        return python_path
    # pip installs both into one directory. Another py4j may be of another release.
    return os.pathsep.join(others) if py4j == package else python_path


def _is_archive(entry: str) -> bool:
    name = os.path.basename(entry)
    return name == _PYSPARK or (name.startswith("py4j-") and name.endswith("-src.zip"))


def _is_beside(archive: Path, package: Path) -> bool:
    """Return whether an archive lies where the package of a directory keeps its own, `pyspark/python/lib`."""
    try:
        return archive.parent.samefile(package / "pyspark" / "python" / "lib")
    except OSError:
        return False


def _has(entry: str, package: str) -> bool:
    """Return whether a package is in an entry of an import path."""
    if entry.endswith(_PACKED):
        try:
            return zipimport.zipimporter(entry).find_spec(package) is not None
        except zipimport.ZipImportError:
            return False
    return os.path.isfile(os.path.join(entry, package, "__init__.py"))
