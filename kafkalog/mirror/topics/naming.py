"""Names of topics on both sides of a mirror: MirrorMaker 2's replication policies (KIP-382).

`Naming` is its `DefaultReplicationPolicy`: topic `words` of the cluster `A` is `A.words` in another cluster, and
`B.A.words` in a third one. A name so tells where its records come from, and a mirror can leave out topics that came
from its target. `IdentityNaming` is its `IdentityReplicationPolicy`: names stay, except that of the heartbeats, which
always tell their way. Source: `connect/mirror-client/.../DefaultReplicationPolicy`, `IdentityReplicationPolicy`.
"""

from __future__ import annotations

from dataclasses import dataclass

from kafkalog.client.errors import ConfigError

HEARTBEATS = "heartbeats"
_POLICIES = "org.apache.kafka.connect.mirror."


@dataclass(frozen=True)
class Naming:
    """Remote topics have the alias of their source before their name."""

    source: str
    """The alias of the source cluster."""
    target: str
    """The alias of the target cluster."""
    separator: str = "."

    def remote(self, topic: str) -> str:
        """Return the name in the target of a topic of the source."""
        return f"{self.source}{self.separator}{topic}"

    @property
    def keeps_names(self) -> bool:
        """Return whether topics have the same names on both sides, so that names cannot reveal a cycle."""
        return False

    def origin(self, topic: str) -> str | None:
        """Return the alias of the cluster that a topic was mirrored from, None where its name does not tell."""
        alias, _, rest = topic.partition(self.separator)
        return alias if rest.strip(self.separator) else None

    def upstream(self, topic: str) -> str | None:
        """Return a topic's name in the cluster that it was mirrored from."""
        origin = self.origin(topic)
        return None if origin is None else topic[len(origin) + len(self.separator) :]

    def original(self, topic: str) -> str:
        """Return a topic's name in the cluster where it was written."""
        while (upstream := self.upstream(topic)) is not None and upstream != topic:
            topic = upstream
        return topic

    def is_heartbeats(self, topic: str) -> bool:
        return self.original(topic) == HEARTBEATS

    def is_internal(self, topic: str) -> bool:
        """Tell whether a topic belongs to Kafka, to Kafka Connect or to a mirror itself."""
        suffixes = (f"{self.separator}internal", ".internal", "-internal")
        return topic.startswith(("__", ".")) or topic.endswith(suffixes)

    def is_cycle(self, topic: str) -> bool:
        """Tell whether a topic of the source was in the target before, so that mirroring it would never end."""
        return self._was_in(topic, self.target)

    def is_copy(self, topic: str) -> bool:
        """Tell whether a topic came from the source, by its name; in the source only if that is the target, too."""
        return self._was_in(topic, self.source)

    def _was_in(self, topic: str, alias: str) -> bool:
        """Tell whether a topic's name has an alias on its way; a name that stays tells nothing."""
        while (origin := self.origin(topic)) is not None:
            upstream = self.upstream(topic)
            if upstream is None or upstream == topic:
                return False
            if origin == alias:
                return True
            topic = upstream
        return False

    # A mirror's own topics

    @property
    def checkpoints(self) -> str:
        """The topic in the target with the translated offsets of consumer groups."""
        return f"{self.source}{self.separator}checkpoints{self.separator}internal"

    @property
    def group_marks(self) -> str:
        """The topic in the target that tells which positions of groups there the mirror has committed itself."""
        return f"kafkalog-group-marks{self.separator}{self.source}{self.separator}internal"

    @property
    def offset_syncs(self) -> str:
        """The topic in the target with pairs of offsets, as MM2 names it with `offset-syncs.topic.location=target`."""
        return f"mm2-offset-syncs{self.separator}{self.source}{self.separator}internal"

    @property
    def reverse_offset_syncs(self) -> str:
        """The topic in the source with the pairs of a mirror from the target to the source."""
        return f"mm2-offset-syncs{self.separator}{self.target}{self.separator}internal"

    @property
    def offsets(self) -> str:
        """The topic in the target with the positions in the source: the offsets topic of MM2's Kafka Connect."""
        return f"mm2-offsets.{self.source}.internal"

    @property
    def reverse_offsets(self) -> str:
        """The topic in the source in which a mirror from the target to the source keeps its positions."""
        return f"mm2-offsets.{self.target}.internal"

    @property
    def flow(self) -> str:
        """The mirror's name, of which the names of its group and its transactions are made."""
        return f"{self.source}->{self.target}"


class IdentityNaming(Naming):
    """Topics keep their names. Names cannot tell a cycle then; the positions of the reverse mirror do."""

    @property
    def keeps_names(self) -> bool:
        return True

    def remote(self, topic: str) -> str:
        return super().remote(topic) if topic.endswith(HEARTBEATS) else topic

    def origin(self, topic: str) -> str | None:
        return super().origin(topic) if topic.endswith(HEARTBEATS) else self.source

    def upstream(self, topic: str) -> str | None:
        return super().upstream(topic) if topic.endswith(HEARTBEATS) else topic


NAMINGS = {"default": Naming, "identity": IdentityNaming}


def naming_of(policy: str, source: str, target: str, separator: str = ".") -> Naming:
    """Make a naming of its name here or of its class in MirrorMaker 2.

    Raises:
        ConfigError: The policy is unknown, or an alias cannot be used.
    """
    short = policy.removeprefix(_POLICIES).removesuffix("ReplicationPolicy").lower()
    if short not in NAMINGS:
        raise ConfigError(
            f"replication.policy.class={policy}: expected default or identity, or MirrorMaker 2's class of one of them"
        )
    for alias in (source, target):
        if not alias or separator in alias:
            raise ConfigError(f"{alias!r} is no alias of a cluster: it must not be empty or contain {separator!r}")
    if source == target:
        raise ConfigError(f"source and target have the same alias {source!r}; set --source-alias and --target-alias")
    return NAMINGS[short](source, target, separator)
