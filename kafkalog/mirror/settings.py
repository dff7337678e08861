"""The settings of a mirror, under the names of MirrorMaker 2.

A file may be one of `connect-mirror-maker.sh`: `clusters = A, B`, `A.bootstrap.servers`, `A->B.topics` and so on. What
begins with `A->B.` is the mirror's own and goes before the same name alone. What begins with `A.` or `B.` (also
`A.consumer.`, `B.producer.`, `A.admin.`) goes to the clients of that cluster. How to log in (`security.protocol`,
`ssl.…`, `sasl.…`) goes to the clients of both clusters without an alias. Source: `MirrorMakerConfig`,
`MirrorClientConfig`, `MirrorConnectorConfig`, `MirrorSourceConfig`, `MirrorCheckpointConfig`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from kafkalog.client.errors import ConfigError
from kafkalog.client.properties.options import boolean, declared, integer, one_of, option, read_options
from kafkalog.mirror.topics.naming import Naming, naming_of
from kafkalog.mirror.topics.selection import CONFIGS_EXCLUDE, GROUPS_EXCLUDE, TOPICS_EXCLUDE, MirroredTopics, NameFilter
from kafkalog.mirror.transaction_timeout import transaction_timeout_ms

CLIENT_KINDS = ("consumer.", "producer.", "admin.")
_ELSEWHERE = frozenset({"clusters", "enabled"})
_OF_ALL_CLUSTERS = frozenset({"bootstrap.servers", "security.protocol"})
_OF_ALL_PREFIXES = ("ssl.", "sasl.")
"""The properties that count for every cluster where they have no alias, like those above."""


@dataclass(frozen=True)
class MirrorSettings:
    """The settings of one mirror; durations in seconds, where no name ends in `_ms`.

    The defaults are MirrorMaker 2's, unless a field says more.
    """

    source: str = "source"
    """The alias of the source cluster."""
    target: str = "target"
    """The alias of the target cluster."""
    source_client: Mapping[str, str] = dataclasses.field(default_factory=dict, repr=False)
    """Properties of the clients of the source, `bootstrap.servers` among them."""
    target_client: Mapping[str, str] = dataclasses.field(default_factory=dict, repr=False)
    """Properties of the clients of the target."""

    topics: str = option("topics", ".*", str)
    topics_exclude: str = option("topics.exclude", TOPICS_EXCLUDE, str, "topics.blacklist")
    groups: str = option("groups", ".*", str)
    groups_exclude: str = option("groups.exclude", GROUPS_EXCLUDE, str, "groups.blacklist")
    configs_exclude: str = option("config.properties.exclude", CONFIGS_EXCLUDE, str, "config.properties.blacklist")
    policy: str = option("replication.policy.class", "default", str)
    separator: str = option("replication.policy.separator", ".", str)
    replication_factor: int = option("replication.factor", -1, integer(-1, 32767))
    """Of topics that the mirror creates; -1 is the target's default. MirrorMaker 2 has 2, too many for one broker."""
    refresh_topics: int = option("refresh.topics.interval.seconds", 60, integer(1))
    """The interval at which new topics and partitions are looked for; 600 in MirrorMaker 2."""
    sync_configs: bool = option("sync.topic.configs.enabled", True, boolean)
    sync_configs_interval: int = option("sync.topic.configs.interval.seconds", 600, integer(1))
    sync_acls: bool = option("sync.topic.acls.enabled", True, boolean)
    sync_acls_interval: int = option("sync.topic.acls.interval.seconds", 600, integer(1))
    emit_heartbeats: bool = option("emit.heartbeats.enabled", True, boolean)
    heartbeats_interval: int = option("emit.heartbeats.interval.seconds", 1, integer(1))
    replicate_heartbeats: bool = option("heartbeats.replication.enabled", True, boolean)
    emit_checkpoints: bool = option("emit.checkpoints.enabled", True, boolean)
    checkpoints_interval: int = option("emit.checkpoints.interval.seconds", 60, integer(1))
    sync_groups: bool = option("sync.group.offsets.enabled", False, boolean)
    sync_groups_interval: int = option("sync.group.offsets.interval.seconds", 60, integer(1))
    sync_groups_back: bool = option("sync.group.offsets.back.enabled", True, boolean)
    """True if positions that groups reach in the target are brought back into the source. Not in MirrorMaker 2."""
    synchronized_groups: str = option("sync.group.offsets.groups", ".*", str)
    """A regular expression: of the mirrored groups, those whose positions are written into the target. MirrorMaker 2
    has no such property."""
    emit_heartbeats_in_source: bool = option("emit.heartbeats.in.source", True, boolean)
    """True if heartbeats of the other direction are written into the source; MirrorMaker 2 always does."""
    tasks: int = option("tasks.max", 8, integer(1, 1024))
    """The number of parts of the work that processes share, each with a transactional producer; 1 in MirrorMaker 2."""
    commit_interval_ms: int = option("offset.flush.interval.ms", 1000, integer(1))
    """The longest interval between commits of transactions; 60000 in Kafka Connect."""
    boundary: str = option("transaction.boundary", "poll", one_of("poll", "interval"))
    """`poll`: a transaction also ends when the source is read to its end; `interval`: only after the interval above."""
    start_at: str = option("auto.offset.reset", "earliest", one_of("earliest", "latest"))
    """The position at which partitions begin that were never mirrored."""
    offsets: str = option("replication.offsets", "translate", one_of("translate", "keep"))
    """`keep`: records keep their offsets in the target; `translate`: they get new ones. Not in MirrorMaker 2."""
    max_bytes_per_second: int = option("max.bytes.per.second", 0, integer(0))
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
        flow = f"{source}->{target}."
        of_flow = {key.removeprefix(flow): text for key, text in given.items() if key.startswith(flow)}
        # The last one counts.
        own = {key: text for key, text in given.items() if key not in of_flow} | of_flow
        found, _ = read_options(cls, own)
        found |= {"source": source, "target": target}
        for name, alias, more in (("source_client", source, clients[0]), ("target_client", target, clients[1])):
            found[name] = {**_client(given, alias), **more}
            if not found[name].get("bootstrap.servers"):
                where = "--source" if alias == source else "--target"
                raise ConfigError(f"no address of the cluster {alias}: give {where}, or {alias}.bootstrap.servers")
        settings = cls(**found)
        settings.check()
        return settings, _without_effect(given, source, target)

    def check(self) -> None:
        """Check what depends on several settings.

        Raises:
            ConfigError: A regular expression, the policy or an alias cannot be used, or transactions would time out.
        """
        _ = self.naming, self.topic_filter, self.group_filter, self.sync_group_filter, self.config_filter
        if self.keeps_offsets and self.start_at == "latest":
            raise ConfigError(
                "auto.offset.reset=latest (--from) does not go with replication.offsets=keep: where the target's log "
                "ends is the position, and an empty log begins at the source's beginning. Use earliest"
            )
        if not self.keeps_offsets:
            _ = self.transaction_timeout_ms

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

    def mirrored(self, returning: Collection[str] = (), *, into_itself: bool = False) -> MirroredTopics:
        """Return the filter of the source's topics; see `MirroredTopics`."""
        names = self.topic_filter
        kept_out = frozenset(returning)
        return MirroredTopics(names.include, self.naming, names, self.replicate_heartbeats, kept_out, into_itself)

    @property
    def keeps_offsets(self) -> bool:
        """Return whether records keep their offsets in the target."""
        return self.offsets == "keep"

    @property
    def brings_groups_back(self) -> bool:
        """Return whether positions that groups reach in the target come back; only of groups that are brought there."""
        return self.emit_checkpoints and self.sync_groups and self.sync_groups_back

    @property
    def transaction_timeout_ms(self) -> int:
        """The time after which the target aborts a transaction of a task."""
        return transaction_timeout_ms(self.commit_interval_ms, self.target_client)

    @property
    def commits_early(self) -> bool:
        """Return whether a transaction ends as soon as the source is read to its end."""
        return self.boundary == "poll"

    @property
    def group_id(self) -> str:
        """The consumer group in the source by which processes share the work."""
        return f"kafkalog-mirror-{self.naming.flow}"

    def transactional_id(self, task: int) -> str:
        """Return the transactional id of a task, in the target."""
        return f"kafkalog-mirror-{self.naming.flow}-{task}"

    @property
    def keeping_id(self) -> str:
        """The transactional id under which the target keeps the producer id of `keeping`; it has no transactions."""
        return f"kafkalog-mirror-{self.naming.flow}-offsets"


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


def _client(given: Mapping[str, str], alias: str) -> dict[str, str]:
    """Select the properties of the clients of one cluster; its own go before those of all clusters."""
    prefix = f"{alias}."
    found = {key: text for key, text in given.items() if _is_of_all(key)}
    found |= {key.removeprefix(prefix): text for key, text in given.items() if key.startswith(prefix)}
    for kind in CLIENT_KINDS:
        more = {key.removeprefix(kind): found.pop(key) for key in list(found) if key.startswith(kind)}
        found |= more
    return found


def _is_of_all(key: str) -> bool:
    return key in _OF_ALL_CLUSTERS or key.startswith(_OF_ALL_PREFIXES)


def _without_effect(given: Mapping[str, str], source: str, target: str) -> list[str]:
    known = declared(MirrorSettings).keys() | _ELSEWHERE
    prefixes = (f"{source}.", f"{target}.")
    plain = {key: key.removeprefix(f"{source}->{target}.") for key in given}
    return sorted(
        key
        for key, name in plain.items()
        if "->" not in name and name not in known and not key.startswith(prefixes) and not _is_of_all(key)
    )
