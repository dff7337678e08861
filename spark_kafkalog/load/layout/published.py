"""The published loads of a topic, and publishing the next one by the one rename that exactly-once depends on.

A run plans from load n-1 and publishes load n. If another run was faster, load n exists, the rename fails, and the run
discards its work. It must never try n+1, whose offsets would overlap. So no number may ever become free again:
compaction leaves every load's directory and document in place.
"""

from __future__ import annotations

from spark_kafkalog import faults
from spark_kafkalog.fs.interface import Files
from spark_kafkalog.load.layout.file_names import OFFSETS_FILE, load_name, load_number
from spark_kafkalog.load.layout.offsets_document import DocumentError, Offsets


class StateError(RuntimeError):
    """A published load cannot be read; nothing may be loaded after it."""


class LostRaceError(RuntimeError):
    """Another run has published this run's load first; this run has published nothing."""


def numbers(files: Files, topic_path: str) -> list[int]:
    """Return the numbers of the published loads, in order."""
    found = (load_number(each.name) for each in files.list(topic_path) if each.is_directory)
    return sorted(number for number in found if number is not None)


def read_document(files: Files, topic_path: str, number: int) -> Offsets:
    """Read the document of a published load.

    Raises:
        StateError: The document is missing or invalid.
    """
    path = f"{topic_path}/{load_name(number)}/{OFFSETS_FILE}"
    try:
        document = Offsets.from_json(files.read(path))
    except FileNotFoundError:
        raise StateError(
            f"{path} is missing: a load is published with it, so it was deleted since, or {load_name(number)} was made "
            "by something else. Restore it, or move that directory away if it is no load"
        ) from None
    except DocumentError as error:
        raise StateError(f"{path}: {error}") from None
    if document.topic != (topic := topic_path.rpartition("/")[2]):
        raise StateError(
            f"{path} is of the topic {document.topic}, and tells nothing about {topic}: the directory was renamed or "
            f"copied. Load {topic} into another one"
        )
    if document.load != number:
        raise StateError(f"{path} is the document of load {document.load}: the directory was renamed")
    return document


def newest(files: Files, topic_path: str) -> Offsets | None:
    """Read the document of the newest published load, which is the state; None if nothing is published."""
    found = numbers(files, topic_path)
    return read_document(files, topic_path, found[-1]) if found else None


def history(files: Files, topic_path: str) -> list[Offsets]:
    """Read the documents of all published loads, oldest first."""
    return [read_document(files, topic_path, number) for number in numbers(files, topic_path)]


def publish(files: Files, topic_path: str, prepared: str, document: Offsets) -> str:
    """Publish the directory `prepared`, which has the document and its files, and return the path of the load.

    Raises:
        LostRaceError: The load exists.
        FileNotFoundError: `prepared` was swept.
    """
    target = f"{topic_path}/{load_name(document.load)}"
    faults.point("before-rename")
    try:
        files.rename(prepared, target)
    except OSError as error:
        # The rename may have succeeded, and its response was lost. A client that then tries again gets an error:
        # the target exists, or the source does not.
        if not _is_ours(files, topic_path, document):
            if isinstance(error, FileExistsError):
                raise LostRaceError(
                    f"another run has published {load_name(document.load)} of {document.topic} in the meantime, so "
                    "this one has published nothing and thrown its files away. Run it again to load what has come since"
                ) from None
            raise
    faults.point("after-rename")
    files.sync(topic_path)
    return target


def _is_ours(files: Files, topic_path: str, document: Offsets) -> bool:
    try:
        return read_document(files, topic_path, document.load).run_id == document.run_id
    except (StateError, OSError):
        return False
