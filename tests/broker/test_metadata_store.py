"""The local registry: what is committed is read back, a crash leaves the old or the new, damage is named."""

from __future__ import annotations

import asyncio
import base64
import os
import uuid
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.metadata.local import FILE_NAME, LocalStore
from broker.metadata.model import (
    ClusterState,
    MetadataError,
    PartitionState,
    TopicState,
    from_json,
    new_cluster_id,
    new_topic_id,
    to_json,
)

names = st.text("abcXYZ019._-", min_size=1, max_size=20)


def topic(name: str, count: int, config: dict[str, str]) -> TopicState:
    partition = PartitionState((3,), (3,), 3, 5)
    return TopicState(name, uuid.uuid5(uuid.NAMESPACE_DNS, name), (partition,) * count, config)


states = st.builds(
    ClusterState,
    st.just("cluster"),
    st.dictionaries(
        names,
        st.tuples(st.integers(1, 5), st.dictionaries(names, st.text(max_size=9), max_size=3)),
        max_size=5,
    ).map(lambda found: {name: topic(name, count, config) for name, (count, config) in found.items()}),
    st.dictionaries(names, st.dictionaries(names, st.text(max_size=9), max_size=3), max_size=3),
    st.frozensets(st.uuids(), max_size=3),
    st.integers(0, 1 << 62),
)


@given(states)
def test_states_survive_as_text(state: ClusterState) -> None:
    assert from_json(to_json(state), "test") == state


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"format": 9}', '{"format": 1, "cluster_id": "x"}', "\0"])
def test_damage_is_named(text: str) -> None:
    with pytest.raises(MetadataError, match="somewhere"):
        from_json(text, "somewhere")


def test_commits_are_serial_and_durable(tmp_path: Path) -> None:
    async def main() -> None:
        store = LocalStore(tmp_path)
        store.load()
        await asyncio.gather(
            *(
                store.commit(lambda state: replace(state, next_producer_id=state.next_producer_id + 1))
                for _ in range(20)
            )
        )
        assert store.state.next_producer_id == 20

    asyncio.run(main())
    again = LocalStore(tmp_path)
    assert again.load().next_producer_id == 20


def test_a_change_that_raises_changes_nothing(tmp_path: Path) -> None:
    def refuse(state: ClusterState) -> ClusterState:
        raise RuntimeError("no")

    async def main() -> None:
        store = LocalStore(tmp_path)
        before = store.load()
        with pytest.raises(RuntimeError, match="no"):
            await store.commit(refuse)
        assert store.state is before
        assert not store.exists

    asyncio.run(main())


def test_a_state_that_cannot_be_stored_is_not_in_force(tmp_path: Path) -> None:
    async def main() -> None:
        store = LocalStore(tmp_path)
        before = store.load()
        (tmp_path / (FILE_NAME + ".tmp")).mkdir()
        with pytest.raises(OSError, match=FILE_NAME):
            await store.commit(lambda state: state.with_topics(topic("t", 1, {})))
        assert store.state is before

    asyncio.run(main())


def test_a_torn_temporary_file_is_ignored(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    store.load("given")
    store.write(store.state.with_topics(topic("t", 1, {})))
    (tmp_path / (FILE_NAME + ".tmp")).write_text('{"format": 1, "clus')
    again = LocalStore(tmp_path).load()
    assert again.cluster_id == "given"
    assert set(again.topics) == {"t"}


def test_an_unreadable_file_is_named(tmp_path: Path) -> None:
    os.mkdir(tmp_path / FILE_NAME)
    with pytest.raises(MetadataError, match=FILE_NAME):
        LocalStore(tmp_path).load()


def test_deleted_topics_are_remembered_until_they_are_gone() -> None:
    state = ClusterState("c").with_topics(topic("a", 1, {}), topic("b", 1, {}))
    after = state.without_topics("a", "never-there")
    assert set(after.topics) == {"b"}
    assert after.deleting == {state.topics["a"].topic_id}


def test_ids() -> None:
    assert len({new_cluster_id() for _ in range(100)}) == 100
    assert all(len(new_cluster_id()) == 22 for _ in range(10))
    taken = {new_topic_id(set()) for _ in range(10)}
    assert new_topic_id(taken) not in taken
    starts = {base64.urlsafe_b64encode(new_topic_id(set()).bytes)[:1] for _ in range(2000)}
    assert b"-" not in starts, "a tool would take the id for an option"
    assert len(starts) > 50
