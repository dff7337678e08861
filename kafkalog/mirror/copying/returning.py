"""Find topics that the reverse mirror writes under the same names: they would go round for ever.

Unchanged names do not tell where a topic comes from. So a mirror that gives new offsets stores a position of each
partition in the target before it creates the topic there, and one that keeps offsets creates it with the configuration
that names the source. A topic of the source for which the reverse mirror has done so is left out.
"""

from __future__ import annotations

from kafkalog.client.admin import Admin
from kafkalog.client.errors import ClientError, ConfigError
from kafkalog.mirror.internal_topics.stored import returning_topics
from kafkalog.mirror.keeping.topics import mirrors_of
from kafkalog.mirror.settings import MirrorSettings


class BothWaysError(ClientError):
    """The mirrors of both directions have begun with the same topic at the same time; both try again."""

    retriable = True


def check_clusters(settings: MirrorSettings, source: Admin, target: Admin) -> None:
    """Check that topics that keep their names are not mirrored into themselves.

    Raises:
        ConfigError: Source and target are the same cluster.
        KafkaError, ClientError: A cluster cannot be asked.
    """
    if not settings.naming.keeps_names:
        return
    here, there = (admin.cluster.metadata(refresh=True).cluster_id for admin in (source, target))
    if here is not None and here == there:
        raise ConfigError(
            f"{settings.source} and {settings.target} are the same cluster ({here}): topics that keep their names "
            "would be mirrored into themselves. If they are two, and one was made of a copy of the other's "
            "directories, use --naming default, or let one of them begin with empty directories, which gives it an id "
            "of its own"
        )


def find_returning(settings: MirrorSettings, source: Admin) -> set[str]:
    """Return the topics of the source that a mirror from the target writes.

    Raises:
        KafkaError, ClientError: The source cannot be asked.
    """
    found = returning_topics(settings)
    if settings.naming.keeps_names:
        wanted = settings.mirrored(found).select(source.cluster.metadata(refresh=True).topics)
        found |= mirrors_of(source, list(wanted), settings.target)
    return found
