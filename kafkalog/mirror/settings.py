"""The settings of a mirror, under the names of MirrorMaker 2.

A file may be one of `connect-mirror-maker.sh`: `clusters = A, B`, `A.bootstrap.servers`, `A->B.topics` and so on. What
begins with `A->B.` is the mirror's own and goes before the same name alone. What begins with `A.` or `B.` (also
`A.consumer.`, `B.producer.`, `A.admin.`) goes to the clients of that cluster. Source: `MirrorMakerConfig`,
`MirrorConnectorConfig`, `MirrorSourceConfig`, `MirrorCheckpointConfig`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from kafkalog.client.errors import ConfigError
from kafkalog.client.options import boolean, integer, one_of
from kafkalog.mirror.topics.naming import Naming, naming_of
from kafkalog.mirror.topics.selection import CONFIGS_EXCLUDE, GROUPS_EXCLUDE, TOPICS_EXCLUDE, MirroredTopics, NameFilter

CLIENT_KINDS = ("consumer.", "producer.", "admin.")
_ALIASES = {
    "topics.blacklist": "topics.exclude",
    "groups.blacklist": "groups.exclude",
    "config.properties.blacklist": "config.properties.exclude",
}
_ELSEWHERE = frozenset({"clusters", "enabled", "bootstrap.servers"})


def _option(key: str, default: Any, parse: Any = str) -> Any:
    return dataclasses.field(default=default, metadata={"key": key, "parse": parse})


@dataclass(frozen=True)
class MirrorSettings:
    """What one mirror does; durations in seconds. The defaults are MirrorMaker 2's, unless a field says more."""

    source: str = "source"
    """The alias of the source cluster."""
    target: str = "target"
    """The alias of the target cluster."""
    source_client: Mapping[str, str] = dataclasses.field(default_factory=dict, repr=False)
    """Properties of the clients of the source, `bootstrap.servers` among them."""
    target_client: Mapping[str, str] = dataclasses.field(default_factory=dict, repr=False)
    """Properties of the clients of the target."""

    topics: str = _option("topics", ".*")
    topics_exclude: str = _option("topics.exclude", TOPICS_EXCLUDE)
    groups: str = _option("groups", ".*")
    groups_exclude: str = _option("groups.exclude", GROUPS_EXCLUDE)
    configs_exclude: str = _option("config.properties.exclude", CONFIGS_EXCLUDE)
    policy: str = _option("replication.policy.class", "default")
    separator: str = _option("replication.policy.separator", ".")
    replication_factor: int = _option("replication.factor", -1, integer(-1, 32767))
    """Of topics that the mirror creates; -1 is the target's default. MirrorMaker 2 has 2, too many for one broker."""
    refresh_topics: int = _option("refresh.topics.interval.seconds", 60, integer(1))
    """How often new topics and partitions are looked for; 600 in MirrorMaker 2."""
    sync_configs: bool = _option("sync.topic.configs.enabled", True, boolean)
    sync_configs_interval: int = _option("sync.topic.configs.interval.seconds", 600, integer(1))
    emit_heartbeats: bool = _option("emit.heartbeats.enabled", True, boolean)
    heartbeats_interval: int = _option("emit.heartbeats.interval.seconds", 1, integer(1))
    replicate_heartbeats: bool = _option("heartbeats.replication.enabled", True, boolean)
    emit_checkpoints: bool = _option("emit.checkpoints.enabled", True, boolean)
    checkpoints_interval: int = _option("emit.checkpoints.interval.seconds", 60, integer(1))
    sync_groups: bool = _option("sync.group.offsets.enabled", False, boolean)
    sync_groups_interval: int = _option("sync.group.offsets.interval.seconds", 60, integer(1))
    synchronized_groups: str = _option("sync.group.offsets.groups", ".*")
    """Which of the groups have their positions brought into the target. Not in MirrorMaker 2."""
    emit_heartbeats_in_source: bool = _option("emit.heartbeats.in.source", True, boolean)
    """Whether heartbeats of the other direction are written into the source; MirrorMaker 2 always does."""
    tasks: int = _option("tasks.max", 8, integer(1, 1024))
    """How many parts the work has that processes can share, each with a transactional producer; 1 in MirrorMaker 2."""
    commit_interval_ms: int = _option("offset.flush.interval.ms", 1000, integer(1))
    """How often transactions are committed; 60000 in Kafka Connect."""
    start_at: str = _option("auto.offset.reset", "earliest", one_of("earliest", "latest"))
    """Where partitions begin that were never mirrored."""
    max_bytes_per_second: int = _option("max.bytes.per.second", 0, integer(0))
    """The most that a process mirrors, in bytes of record batches as they are; 0: no limit. Not in MirrorMaker 2."""

    @classmethod
    def of(
        cls, properties: Mapping[str, str], source: str, target: str, clients: tuple[Mapping[str, str], ...] = ({}, {})
    ) -> tuple[MirrorSettings, list[str]]:
        """Make settings of a file's properties; also return the properties that have no effect.

        Args:
            properties: Those of the file, and over them what the command line says.
            source: The alias of the source.
            target: The alias of the target.
            clients: Properties of the clients of the source and of the target, which go before the file's.

        Raises:
            ConfigError: A property cannot have its value.
        """
        given = {key.strip(): text for key, text in properties.items()}
        own = {_plain(key): text for key, text in given.items()}
        flow = f"{source}->{target}."
        own |= {_plain(key.removeprefix(flow)): text for key, text in given.items() if key.startswith(flow)}
        found: dict[str, Any] = {"source": source, "target": target}
        used = set(_ELSEWHERE)
        for field in dataclasses.fields(cls):
            key = field.metadata.get("key")
            if key is None:
                continue
            used.add(key)
            if key in own:
                found[field.name] = _parse(key, own[key], field.metadata["parse"])
        for name, alias, more in (("source_client", source, clients[0]), ("target_client", target, clients[1])):
            found[name] = {**_client(given, alias), **more}
            if not found[name].get("bootstrap.servers"):
                option = "--source" if alias == source else "--target"
                raise ConfigError(f"no address of the cluster {alias}: give {option}, or {alias}.bootstrap.servers")
        settings = cls(**found)
        settings.check()
        return settings, _without_effect(given, used, source, target)

    def check(self) -> None:
        """Check what depends on several settings.

        Raises:
            ConfigError: A regular expression, the policy or an alias cannot be used.
        """
        _ = self.naming, self.topic_filter, self.group_filter, self.sync_group_filter, self.config_filter

    @property
    def naming(self) -> Naming:
        return naming_of(self.policy, self.source, self.target, self.separator)

    @property
    def topic_filter(self) -> NameFilter:
        return NameFilter.of(self.topics, self.topics_exclude, "topics")

    @property
    def group_filter(self) -> NameFilter:
        """The groups whose positions are translated; never the mirror's own."""
        return NameFilter.of(self.groups, f"{self.groups_exclude}, kafkalog-mirror-.*", "groups")

    @property
    def sync_group_filter(self) -> NameFilter:
        """The groups whose positions are brought into the target, if they are in `group_filter`, too."""
        return NameFilter.of(self.synchronized_groups, "", "sync.group.offsets.groups")

    @property
    def config_filter(self) -> NameFilter:
        return NameFilter.of(".*", self.configs_exclude, "config.properties")

    def mirrored(self, returning: Collection[str] = ()) -> MirroredTopics:
        """Return the filter of the source's topics; see `MirroredTopics`."""
        names = self.topic_filter
        return MirroredTopics(names.include, self.naming, names, self.replicate_heartbeats, frozenset(returning))

    @property
    def group_id(self) -> str:
        """The consumer group in the source by which processes share the work."""
        return f"kafkalog-mirror-{self.naming.flow}"

    def transactional_id(self, task: int) -> str:
        """Return the transactional id of a task, in the target."""
        return f"kafkalog-mirror-{self.naming.flow}-{task}"


def aliases_of(properties: Mapping[str, str]) -> tuple[str, str] | None:
    """Return source and target of the one flow that a file of MirrorMaker 2 enables; None where it names none.

    Raises:
        ConfigError: It enables several.
    """
    flows = [key.removesuffix(".enabled") for key, text in properties.items() if "->" in key and _enables(key, text)]
    if len(flows) > 1:
        raise ConfigError(
            f"the file enables {', '.join(sorted(flows))}: choose one with --source-alias and --target-alias, and run "
            "one mirror for each"
        )
    if not flows:
        return None
    source, _, target = flows[0].partition("->")
    return source.strip(), target.strip()


def _enables(key: str, text: str) -> bool:
    return key.endswith(".enabled") and key.count(".") == 1 and text.strip().lower() == "true"


def _plain(key: str) -> str:
    return _ALIASES.get(key, key)


def _parse(key: str, text: str, parse: Any) -> Any:
    try:
        return parse(text.strip())
    except ConfigError as error:
        raise ConfigError(f"{key}={text}: {error}") from None


def _client(given: Mapping[str, str], alias: str) -> dict[str, str]:
    """Select the properties of the clients of one cluster."""
    prefix = f"{alias}."
    found = {key.removeprefix(prefix): text for key, text in given.items() if key.startswith(prefix)}
    for kind in CLIENT_KINDS:
        more = {key.removeprefix(kind): found.pop(key) for key in list(found) if key.startswith(kind)}
        found |= more
    return found


def _without_effect(given: Mapping[str, str], used: Collection[str], source: str, target: str) -> list[str]:
    flow = f"{source}->{target}."
    left = []
    for key in given:
        plain = _plain(key.removeprefix(flow))
        if "->" in plain or plain in used or key.startswith((f"{source}.", f"{target}.")):
            continue
        left.append(key)
    return sorted(left)
