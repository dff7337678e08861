"""Test that both file systems keep the contract of `Files`."""

from __future__ import annotations

import errno
import multiprocessing
import os
import pickle
import threading
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from spark_kafkalog.fs import hdfs, renaming
from spark_kafkalog.fs.hdfs import HdfsFiles
from spark_kafkalog.fs.interface import Files
from spark_kafkalog.fs.local import LocalFiles
from spark_kafkalog.fs.opening import UnsupportedUrlError, file_system, open_files
from spark_kafkalog.fs.paths import split
from spark_kafkalog.fs.renaming import rename_with_check

RENAMERS = 8
ROUNDS = 12


@pytest.fixture
def place(target: str) -> tuple[Files, str]:
    """A file system and a directory in it."""
    files, path = open_files(target)
    files.make_directories(path)
    return files, path


def test_files_are_written_and_read(place: tuple[Files, str]) -> None:
    files, path = place
    files.write(f"{path}/a", b"hello")
    assert files.read(f"{path}/a") == b"hello"
    with files.stream(f"{path}/a") as file:
        assert file.seek(-2, os.SEEK_END) == 3
        assert file.read() == b"lo"
        assert (file.seek(1), file.read(3), file.tell()) == (1, b"ell", 4)
    found = files.stat(f"{path}/a")
    assert found is not None
    assert (found.name, found.is_directory, found.size) == ("a", False, 5)
    assert files.stat(f"{path}/b") is None


def test_large_writes(place: tuple[Files, str]) -> None:
    files, path = place
    data = os.urandom(3 << 20)
    with files.create(f"{path}/a") as file:
        for at in range(0, len(data), 1 << 18):
            file.write(memoryview(data)[at : at + (1 << 18)])
    assert files.read(f"{path}/a") == data


def test_create_fails_where_the_file_is_or_its_directory_is_not(place: tuple[Files, str]) -> None:
    files, path = place
    files.write(f"{path}/a", b"1")
    with pytest.raises(FileExistsError):
        files.create(f"{path}/a")
    with pytest.raises(FileNotFoundError):
        files.create(f"{path}/none/a")
    assert files.read(f"{path}/a") == b"1"


def test_replace(place: tuple[Files, str]) -> None:
    files, path = place
    files.replace(f"{path}/a", b"1")
    files.replace(f"{path}/a", b"22")
    assert files.read(f"{path}/a") == b"22"
    with pytest.raises(FileNotFoundError):
        files.replace(f"{path}/none/a", b"1")


def test_list(place: tuple[Files, str]) -> None:
    files, path = place
    files.make_directories(f"{path}/b/c")
    files.write(f"{path}/a", b"1")
    assert [(each.name, each.is_directory) for each in files.list(path)] == [("a", False), ("b", True)]
    assert files.list(f"{path}/none") == []


@pytest.mark.parametrize("kind", ["file", "directory"])
@pytest.mark.parametrize("there", ["file", "empty directory", "full directory"])
def test_rename_fails_where_the_target_exists(place: tuple[Files, str], kind: str, there: str) -> None:
    files, path = place
    if kind == "file":
        files.write(f"{path}/source", b"s")
    else:
        files.make_directories(f"{path}/source")
        files.write(f"{path}/source/s", b"s")
    if there == "file":
        files.write(f"{path}/target", b"t")
    else:
        files.make_directories(f"{path}/target")
        if there == "full directory":
            files.write(f"{path}/target/t", b"t")
    before = [files.list(path), files.list(f"{path}/target") if there != "file" else files.read(f"{path}/target")]
    with pytest.raises(FileExistsError):
        files.rename(f"{path}/source", f"{path}/target")
    after = [files.list(path), files.list(f"{path}/target") if there != "file" else files.read(f"{path}/target")]
    assert before == after


def test_rename_moves_a_directory_with_all_that_is_in_it(place: tuple[Files, str]) -> None:
    files, path = place
    files.make_directories(f"{path}/source/below")
    files.write(f"{path}/source/below/a", b"1")
    files.rename(f"{path}/source", f"{path}/target")
    assert files.read(f"{path}/target/below/a") == b"1"
    assert files.stat(f"{path}/source") is None


def test_rename_fails_where_the_source_or_the_target_s_directory_is_missing(place: tuple[Files, str]) -> None:
    files, path = place
    with pytest.raises(FileNotFoundError):
        files.rename(f"{path}/none", f"{path}/target")
    files.write(f"{path}/a", b"1")
    with pytest.raises(FileNotFoundError):
        files.rename(f"{path}/a", f"{path}/none/a")


def test_delete(place: tuple[Files, str]) -> None:
    files, path = place
    files.make_directories(f"{path}/a/b")
    files.write(f"{path}/a/b/c", b"1")
    files.remove_empty(f"{path}/a")
    assert files.read(f"{path}/a/b/c") == b"1"
    files.delete(f"{path}/a/b/c")
    files.remove_empty(f"{path}/a/b")
    assert files.list(f"{path}/a") == []
    files.delete(f"{path}/a")
    files.delete(f"{path}/a")
    files.remove_empty(f"{path}/a")
    assert files.stat(f"{path}/a") is None


def test_files_go_to_executors(place: tuple[Files, str]) -> None:
    files, path = place
    files.write(f"{path}/a", b"1")
    assert pickle.loads(pickle.dumps(files)).read(f"{path}/a") == b"1"


def _renamer(url: str, number: int, pipe: Connection) -> None:
    files, path = open_files(url)
    while (round_ := pipe.recv()) is not None:
        source = f"{path}/staging/{number}-{round_}"
        files.make_directories(source)
        for name in range(3):
            files.write(f"{source}/{name}", b"%d" % number)
        pipe.send("ready")
        pipe.recv()
        try:
            files.rename(source, f"{path}/loads/{round_}")
        except FileExistsError:
            pipe.send(False)
        else:
            pipe.send(True)


@pytest.mark.usefixtures("processes")
def test_of_many_renamers_one_wins_and_readers_see_all_or_nothing(target: str) -> None:
    """Processes rename full directories to one name, at the same time; somebody lists meanwhile."""
    files, path = open_files(target)
    files.make_directories(f"{path}/loads")
    # Fork would copy the threads of clients that are open here.
    context = multiprocessing.get_context("spawn")
    pipes = []
    processes = []
    for number in range(RENAMERS):
        mine, theirs = context.Pipe()
        process = context.Process(target=_renamer, args=(target, number, theirs), daemon=True)
        process.start()
        pipes.append(mine)
        processes.append(process)
    partial: list[object] = []
    ended = threading.Event()

    def read() -> None:
        while not ended.is_set():
            for each in files.list(f"{path}/loads"):
                found = [entry.name for entry in files.list(f"{path}/loads/{each.name}")]
                if found != ["0", "1", "2"]:
                    partial.append((each, found))

    reader = threading.Thread(target=read)
    reader.start()
    try:
        for round_ in range(ROUNDS):
            for pipe in pipes:
                pipe.send(round_)
            for pipe in pipes:
                assert pipe.recv() == "ready"
            for pipe in pipes:
                pipe.send("go")
            won = [pipe.recv() for pipe in pipes]
            assert won.count(True) == 1
            winner = b"%d" % won.index(True)
            assert [files.read(f"{path}/loads/{round_}/{name}") for name in range(3)] == [winner] * 3
            losers = {each.name for each in files.list(f"{path}/staging") if each.name.endswith(f"-{round_}")}
            assert losers == {f"{number}-{round_}" for number in range(RENAMERS) if not won[number]}
    finally:
        ended.set()
        reader.join()
        for pipe in pipes:
            pipe.send(None)
        for process in processes:
            process.join(30)
    assert not partial


# ---------------------------------------------------------------------------------------------- local only


@pytest.fixture(params=["by the flag", "without the flag"])
def local(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> LocalFiles:
    """Local files, also as on a file system that knows no flag for rename."""
    if request.param == "without the flag":

        def unsupported() -> Callable[[bytes, bytes], int]:
            return lambda source, target: errno.EINVAL

        monkeypatch.setattr(renaming, "_by_flag", unsupported)
    return LocalFiles()


@pytest.mark.parametrize("there", ["file", "empty directory", "full directory", "dangling link"])
def test_local_rename_with_and_without_the_flag(local: LocalFiles, tmp_path: Path, there: str) -> None:
    for kind in ("file", "directory"):
        directory = tmp_path / kind
        directory.mkdir()
        source, target = directory / "source", directory / "target"
        if kind == "file":
            source.write_bytes(b"s")
        else:
            source.mkdir()
        if there == "file":
            target.write_bytes(b"t")
        elif there == "dangling link":
            target.symlink_to("nowhere")
        else:
            target.mkdir()
            if there == "full directory":
                (target / "t").touch()
        with pytest.raises(FileExistsError):
            local.rename(str(source), str(target))
        assert source.exists()


def test_without_the_flag_a_rename_of_a_file_that_was_killed_half_way_is_finished(tmp_path: Path) -> None:
    """It is a second link, and then the end of the first."""
    source, target = tmp_path / "source", tmp_path / "target"
    source.write_bytes(b"x")
    target.hardlink_to(source)
    rename_with_check(str(source), str(target))
    assert not source.exists()
    assert target.read_bytes() == b"x"


def test_without_the_flag_a_full_directory_is_not_replaced_even_by_a_race(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between looking and renaming, another publishes: rename(2) itself must fail then."""
    source, target = tmp_path / "source", tmp_path / "target"
    source.mkdir()

    def look(path: str) -> bool:
        target.mkdir()
        (target / "_offsets.json").touch()
        return False

    monkeypatch.setattr("os.path.lexists", look)
    with pytest.raises(OSError, match="not empty"):
        rename_with_check(str(source), str(target))
    assert [each.name for each in target.iterdir()] == ["_offsets.json"]


@pytest.mark.parametrize(
    ("url", "path"),
    [("/a/b", "/a/b"), ("file:///a/b/", "/a/b"), ("file:/a/b", "/a/b"), ("file:///a%20b", "/a b"), ("/a:b", "/a:b")],
)
def test_local_urls(url: str, path: str) -> None:
    assert open_files(url) == (LocalFiles(), path)


def test_a_relative_directory() -> None:
    assert open_files("data")[1] == str(Path.cwd() / "data")


@pytest.mark.parametrize(
    ("url", "path"),
    [("hdfs://n:1/a/b/", "/a/b"), ("hdfs://n:1/a%20b#c?d", "/a%20b#c?d"), ("hdfs://n:1", "/"), ("hdfs://n:1/", "/")],
)
def test_hdfs_urls(url: str, path: str) -> None:
    """As Hadoop's own tools take them."""
    assert open_files(url) == (hdfs.HdfsFiles("hdfs://n:1"), path)


@pytest.mark.parametrize(
    "url",
    [
        *("s3a://bucket/x", "gs://x/y", "http://x/y", "file://host/x", "hdfs://[x/y", ""),
        # They would be directories below the present one, or the root.
        *("s3a:/bucket/x", "hdfs:kafka", "HDFS:/kafka", "file:kafka", "file:"),
    ],
)
def test_other_urls_are_refused(url: str) -> None:
    with pytest.raises(UnsupportedUrlError):
        open_files(url)


def test_a_path_on_the_default_hdfs() -> None:
    """As in Hadoop, a path without a host has one slash or three. It is no local path."""
    for url in ("hdfs:/kafka/x", "hdfs:///kafka/x"):
        files, path = open_files(url)
        assert isinstance(files, HdfsFiles)
        assert (files.address, path, files.url(path)) == ("hdfs://", "/kafka/x", "hdfs:///kafka/x")
        assert (file_system(url), split(url)) == (files, ("hdfs://", "/kafka/x"))


def test_a_local_name_with_a_colon() -> None:
    files, path = open_files("./s3a:/x")
    assert isinstance(files, LocalFiles)
    assert path == f"{os.getcwd()}/s3a:/x"


@pytest.mark.peer
def test_hdfs_errors_are_one_line(running_hdfs: object, target: str) -> None:
    if not target.startswith("hdfs"):
        pytest.skip("about HDFS")
    files, path = open_files(target)
    files.make_directories(path)
    with pytest.raises(FileNotFoundError) as raised:
        files.create(f"{path}/none/a")
    assert "\n" not in str(raised.value)
    assert target in str(raised.value)


def test_an_unreachable_name_node_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hdfs, "_ATTEMPTS", 1)
    files, path = open_files("hdfs://127.0.0.1:1/x")
    with pytest.raises(OSError, match=r"hdfs://127\.0\.0\.1:1/x: Connection refused"):
        files.list(path)
