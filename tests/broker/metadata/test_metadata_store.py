"""Tests of the local registry: committed state is read back, a crash leaves the old or the new, errors name damage."""

from __future__ import annotations

import asyncio
import base64
import errno
import os
import random
import uuid
from pathlib import Path

import pytest

from broker.log.files.file_ops import FileOps
from broker.metadata.local import FILE_NAME, LocalStore
from broker.metadata.model import (
    ClusterState,
    MetadataError,
    PartitionState,
    TopicState,
    new_cluster_id,
    new_topic_id,
)
from broker.metadata.operations import CreateTopic, DeleteTopic, Draft, Operation, TakeProducerIds, apply
from broker.metadata.store import Decision
from tests.support.in_process.registry import having, with_topics
from tests.support.in_process.runtime import InlineWorkers

CHANCE = random.Random(7)


def topic(name: str, count: int, config: dict[str, str]) -> TopicState:
    partition = PartitionState((3,), (3,), 3, 5)
    return TopicState(name, uuid.uuid5(uuid.NAMESPACE_DNS, name), (partition,) * count, config)


def test_commits_are_serial_and_durable(tmp_path: Path) -> None:
    async def main() -> None:
        store = LocalStore(tmp_path, workers=InlineWorkers())
        store.load()
        await asyncio.gather(
            *(store.commit(lambda state: [TakeProducerIds(state.next_producer_id + 1)]) for _ in range(20))
        )
        assert store.state.next_producer_id == 20

    asyncio.run(main())
    again = LocalStore(tmp_path, workers=InlineWorkers())
    assert again.load().next_producer_id == 20


def test_a_change_that_raises_changes_nothing(tmp_path: Path) -> None:
    def refuse(state: ClusterState) -> list[Operation]:
        raise RuntimeError("no")

    async def main() -> None:
        store = LocalStore(tmp_path, workers=InlineWorkers())
        before = store.load()
        with pytest.raises(RuntimeError, match="no"):
            await store.commit(refuse)
        assert store.state is before
        assert not store.exists

    asyncio.run(main())


def test_a_state_that_cannot_be_stored_is_not_in_force(tmp_path: Path) -> None:
    async def main() -> None:
        store = LocalStore(tmp_path, workers=InlineWorkers())
        before = store.load()
        (tmp_path / (FILE_NAME + ".tmp")).mkdir()
        with pytest.raises(OSError, match=FILE_NAME):
            await store.commit(having(topic("t", 1, {})))
        assert store.state is before

    asyncio.run(main())


def test_a_torn_temporary_file_is_ignored(tmp_path: Path) -> None:
    store = LocalStore(tmp_path, workers=InlineWorkers())
    store.load("given")
    store.write(with_topics(store.state, topic("t", 1, {})))
    (tmp_path / (FILE_NAME + ".tmp")).write_text('{"format": 1, "clus')
    again = LocalStore(tmp_path, workers=InlineWorkers()).load()
    assert again.cluster_id == "given"
    assert set(again.topics) == {"t"}


def test_an_unreadable_file_is_named(tmp_path: Path) -> None:
    os.mkdir(tmp_path / FILE_NAME)
    with pytest.raises(MetadataError, match=FILE_NAME):
        LocalStore(tmp_path, workers=InlineWorkers()).load()


def test_deleted_topics_are_remembered_until_they_are_gone() -> None:
    state = with_topics(ClusterState("c"), topic("a", 1, {}), topic("b", 1, {}))
    after = apply(state, [DeleteTopic("a", state.topics["a"].topic_id)])
    assert set(after.topics) == {"b"}
    assert after.deleting == {state.topics["a"].topic_id}


def test_ids() -> None:
    chance = random.Random()
    assert len({new_cluster_id(chance) for _ in range(100)}) == 100
    assert all(len(new_cluster_id(chance)) == 22 for _ in range(10))
    taken = {new_topic_id(set(), CHANCE) for _ in range(10)}
    assert new_topic_id(taken, CHANCE) not in taken
    starts = {base64.urlsafe_b64encode(new_topic_id(set(), CHANCE).bytes)[:1] for _ in range(2000)}
    assert b"-" not in starts, "a tool would take the id for an option"
    assert len(starts) > 50


class FailsOnce(FileOps):
    """Fails one call in one directory, the first time only."""

    __slots__ = ("call", "where")

    def __init__(self, call: str, where: Path) -> None:
        self.call = call
        self.where = str(where)

    def _maybe_fail(self, call: str, path: str) -> None:
        if call == self.call and path.startswith(self.where):
            self.call = ""
            raise OSError(errno.EIO, "Input/output error", path)

    def open(self, path: str, flags: int, mode: int = 0o644) -> int:
        self._maybe_fail("open", path)
        return super().open(path, flags, mode)

    def rename(self, source: str, target: str) -> None:
        self._maybe_fail("rename", target)
        super().rename(source, target)

    def fsync_dir(self, path: str) -> None:
        self._maybe_fail("fsync_dir", path)
        super().fsync_dir(path)


@pytest.mark.parametrize("call", ["open", "rename", "fsync_dir"])
def test_memory_is_what_the_disk_shows_whatever_fails(tmp_path: Path, call: str) -> None:
    async def main() -> None:
        told: list[tuple[Path, str]] = []
        store = LocalStore(
            tmp_path,
            ops=FailsOnce(call, tmp_path),
            workers=InlineWorkers(),
            on_failure=lambda directory, reason: told.append((directory, reason)),
        )
        store.load("given")
        with pytest.raises(OSError, match="Input/output error"):
            await store.commit(having(topic("t", 1, {})))
        assert [directory for directory, _ in told] == [tmp_path]
        shown = LocalStore(tmp_path, workers=InlineWorkers()).load("given")
        assert store.state == shown
        assert set(shown.topics) == ({"t"} if call == "fsync_dir" else set())

    asyncio.run(main())


def adding(name: str) -> Decision:
    return having(topic(name, 1, {}))


def test_a_change_is_stored_while_one_directory_takes_it(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"

    async def main() -> None:
        for directory in (one, two):
            directory.mkdir()
        store = LocalStore(
            one,
            two,
            ops=FailsOnce("fsync_dir", one),
            workers=InlineWorkers(),
            on_failure=lambda directory, reason: store.drop(directory),
        )
        store.load("given")
        for name in "ab":
            await store.commit(adding(name))
        assert set(LocalStore(two, workers=InlineWorkers()).load().topics) == {"a", "b"}
        assert set(LocalStore(one, workers=InlineWorkers()).load().topics) == {"a"}
        again = LocalStore(one, two, workers=InlineWorkers())
        assert again.load() == store.state
        assert again.behind, "one of them lacks the newest change"
        again.write(again.state)
        assert not LocalStore(one, two, workers=InlineWorkers()).behind
        assert LocalStore(one, workers=InlineWorkers()).load() == LocalStore(two, workers=InlineWorkers()).load()

    asyncio.run(main())


def test_copies_that_contradict_each_other_are_told(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        store = LocalStore(tmp_path / name, workers=InlineWorkers())
        store.load(name)
        store.write(store.state)
    with pytest.raises(MetadataError, match="several log directories"):
        LocalStore(tmp_path / "one", tmp_path / "two", workers=InlineWorkers()).load()


def test_a_copy_that_cannot_be_read_fails_its_directory(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    (one / FILE_NAME).mkdir(parents=True)
    two.mkdir()
    good = LocalStore(two, workers=InlineWorkers())
    good.load("given")
    good.write(good.state)
    told: list[Path] = []
    store = LocalStore(one, two, workers=InlineWorkers(), on_failure=lambda directory, reason: told.append(directory))
    assert store.load() == good.state
    assert told == [one]


def test_many_topics_are_deleted_without_a_copy_for_each() -> None:
    one = (PartitionState((0,), (0,), 0, 0),)
    made = [TopicState(str(number), uuid.UUID(int=number), one, {}) for number in range(3)]
    state = apply(ClusterState("c"), [CreateTopic(topic) for topic in made])
    draft = Draft(state)
    sets = []
    for topic in made:
        DeleteTopic(topic.name, topic.topic_id).apply(draft)
        sets.append(draft.deleting)
    assert sets[0] is sets[1] is sets[2]
    assert draft.finish().deleting == {topic.topic_id for topic in made}
    assert state.deleting == frozenset()
