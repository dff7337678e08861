"""Find topics that would go round for ever: those of a cluster that is mirrored into itself, and those that return.

A mirror of a cluster into itself would copy its own copies, and then the copies of these. Where names change they tell
a copy, and it is left out. Where names stay such a mirror is refused.

Unchanged names do not tell where a topic comes from. So a mirror that gives new offsets stores a position of each
partition in the target before it creates the topic there, and one that keeps offsets creates it with the configuration
that names the source. A topic of the source for which the reverse mirror has done so is left out.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from typing import NoReturn

from kafkalog.client.admin import Admin
from kafkalog.client.errors import ClientError, ConfigError
from kafkalog.client.types import TopicPartition
from kafkalog.mirror.internal_topics.stored import mirrored_topics, read_positions, returning_topics
from kafkalog.mirror.keeping.topics import mirrors_of
from kafkalog.mirror.settings import MirrorSettings
from kafkalog.mirror.topics.selection import MirroredTopics

logger = logging.getLogger(__name__)


class BothWaysError(ClientError):
    """The mirrors of both directions have begun with the same topic at the same time; both try again."""

    retriable = True


class UnclearTopicsError(ClientError):
    """The source does not tell any more whether the reverse mirror writes topics; the next worker leaves them out."""

    retriable = True


def is_into_itself(source: Admin, target: Admin) -> bool:
    """Tell whether source and target are the same cluster, by its id.

    Raises:
        KafkaError, ClientError: A cluster cannot be asked.
    """
    here, there = (admin.cluster.metadata([], refresh=True).cluster_id for admin in (source, target))
    return here is not None and here == there


def check_clusters(settings: MirrorSettings, source: Admin, target: Admin) -> bool:
    """Tell whether a cluster is mirrored into itself, and name the topics that stay out then.

    Raises:
        ConfigError: It is, and topics keep their names.
        KafkaError, ClientError: A cluster cannot be asked.
    """
    if not is_into_itself(source, target):
        return False
    known = source.cluster.metadata(refresh=True)
    same = f"{settings.source} and {settings.target} are the same cluster ({known.cluster_id})"
    if settings.naming.keeps_names:
        raise ConfigError(
            f"{same}: topics that keep their names would be mirrored into themselves. If they are two, and one was "
            "made of a copy of the other's directories, use --naming default, or let one of them begin with empty "
            "directories, which gives it an id of its own"
        )
    wanted = settings.mirrored().select(known.topics)
    if copies := wanted - settings.mirrored(into_itself=True).select(wanted):
        told = "%s: not mirroring topics whose names say that they are mirrored already: %s"
        logger.warning(told, same, ", ".join(sorted(copies)))
    return True


def find_returning(settings: MirrorSettings, source: Admin) -> set[str]:
    """Return the topics of the source that a mirror from the target writes.

    Raises:
        KafkaError, ClientError: The source cannot be asked.
    """
    found = returning_topics(settings)
    if settings.naming.keeps_names:
        wanted = settings.mirrored(found).select(source.cluster.metadata(refresh=True).topics)
        found |= mirrors_of(source, list(wanted), settings.target).of_source
    return found


def wanted_topics(settings: MirrorSettings, source: Admin, *, into_itself: bool) -> MirroredTopics:
    """Return the topics to mirror, without those that a mirror from the target writes; log which these are.

    `into_itself` says whether source and target are the same cluster.

    Raises:
        KafkaError, ClientError: A cluster cannot be asked.
    """
    # What both directions have claimed is decided when its partitions are assigned.
    returning = find_returning(settings, source) - claimed_topics(settings)
    say_left_out(settings, returning)
    return settings.mirrored(returning, into_itself=into_itself)


def returning_of(settings: MirrorSettings, source: Admin, topics: Collection[str]) -> set[str]:
    """Return those of some topics that a mirror from the target writes. `unclear_topics` must not be among them.

    There are none where names change, because they show the origin.

    Raises:
        UnclearTopicsError: Some have become unclear.
        KafkaError, ClientError: The source cannot be asked.
    """
    if not topics or not settings.naming.keeps_names:
        return set()
    stored = returning_topics(settings).intersection(topics)
    mirrors = mirrors_of(source, set(topics) - stored, settings.target)
    if mirrors.unreadable:
        # They were readable a moment ago. If one is mirrored, its records may go round for ever.
        raise UnclearTopicsError(
            "configurations in the source, which tell whether the reverse mirror writes the topics, cannot be read any "
            f"more: {', '.join(sorted(mirrors.unreadable))}"
        )
    return stored | mirrors.of_source


def unclear_topics(settings: MirrorSettings, source: Admin, topics: Collection[str]) -> set[str]:
    """Return topics whose configurations in the source cannot tell whether a mirror from the target writes them.

    There are none where names change, because they show the origin.

    Raises:
        KafkaError, ClientError: The source cannot be asked.
    """
    if not topics or not settings.naming.keeps_names:
        return set()
    return set(mirrors_of(source, topics, settings.target).unreadable)


def say_left_out(settings: MirrorSettings, returning: Collection[str]) -> None:
    """Log which topics stay out because the reverse mirror writes them, if there are any."""
    if returning:
        logger.warning(
            "not mirroring topics that the mirror from %s to %s writes: %s (if it is given up: kafkalog mirror "
            "release)",
            settings.target,
            settings.source,
            ", ".join(sorted(returning)),
        )


def claimed_topics(settings: MirrorSettings) -> set[str]:
    """Return the topics that keep their names, of which this mirror has stored positions."""
    if not settings.naming.keeps_names or settings.keeps_offsets:
        return set()
    return {tp.topic for tp in read_positions(settings)}


def settle_claims(
    settings: MirrorSettings,
    source: Admin,
    partitions: Collection[TopicPartition],
    positions: Mapping[TopicPartition, int],
    store: Callable[[Mapping[TopicPartition, int | None]], None],
) -> set[str]:
    """Decide about topics that both directions claim; return those that the mirror of the other one writes.

    Both claim a topic if each has a process that died before it saw the other's claim. A direction that has
    mirrored none of it withdraws its claim. If only this one has mirrored it, it goes on with it.

    Args:
        settings: The mirror's.
        source: The source.
        partitions: The partitions of the source that this process has.
        positions: The positions that are stored in them.
        store: Stores positions; None withdraws one.

    Raises:
        BothWaysError: Claims were withdrawn.
        KafkaError, ClientError: A cluster cannot be asked.
    """
    returning = returning_of(settings, source, {tp.topic for tp in partitions})
    contested = {tp.topic for tp in partitions if tp in positions} & returning
    if not contested:
        return returning
    ours = mirrored_topics(settings)
    if withdrawn := contested - ours:
        store({tp: None for tp in partitions if tp in positions and tp.topic in withdrawn})
        raise_both(settings, withdrawn)
    return returning - (contested - mirrored_topics(settings, reverse=True))


def raise_both(settings: MirrorSettings, topics: Collection[str]) -> NoReturn:
    """Raise that the mirror of the other direction has begun with these topics, too.

    Raises:
        BothWaysError: Always.
    """
    raise BothWaysError(
        f"the mirror from {settings.target} to {settings.source} begins with the same topics: "
        + ", ".join(sorted(topics))
    )
