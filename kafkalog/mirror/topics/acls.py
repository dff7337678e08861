"""Let the access control lists of the target's topics follow those of the source: MM2's `sync.topic.acls.enabled`.

Only bindings of topics by their whole names are copied, under the topics' names in the target. What allows to write is
left out: the mirror alone writes there. What allows everything allows to read there. Nothing is ever removed in the
target. Source: `MirrorSourceConnector.syncTopicAcls`, `shouldReplicateAcl`, `targetAclBinding`.

MirrorMaker 2 takes the binding of all topics (`*`) for that of a topic with this name. It is left out here: with names
that stay it would be one of all topics of the target.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterable

from kafkalog.client.admin import Admin
from kafkalog.client.admin.security.acls import AclBinding, AclFilter
from kafkalog.protocol.acls import AclOperation, AclPatternType, AclPermission, AclResourceType
from kafkalog.protocol.errors import ClusterAuthorizationFailedError, KafkaError, SecurityDisabledError

logger = logging.getLogger(__name__)

_OF_TOPICS = AclFilter(AclResourceType.TOPIC)
_ALL = "*"


def target_bindings(
    bindings: Iterable[AclBinding], topics: Collection[str], remote: Callable[[str], str]
) -> list[AclBinding]:
    """Return the bindings of these topics as the target gets them; `remote` is a topic's name there."""
    return [
        each._replace(name=remote(each.name), operation=_downgraded(each))
        for each in bindings
        if _follows(each, topics)
    ]


def _follows(binding: AclBinding, topics: Collection[str]) -> bool:
    return (
        binding.resource_type is AclResourceType.TOPIC
        and binding.pattern_type is AclPatternType.LITERAL
        and binding.name in topics
        and binding.name != _ALL
        and not (binding.permission is AclPermission.ALLOW and binding.operation is AclOperation.WRITE)
        # A newer broker's, whose meaning is not known here.
        and binding.operation is not AclOperation.UNKNOWN
        and binding.permission is not AclPermission.UNKNOWN
    )


def _downgraded(binding: AclBinding) -> AclOperation:
    allows_all = binding.permission is AclPermission.ALLOW and binding.operation is AclOperation.ALL
    return AclOperation.READ if allows_all else binding.operation


class AclFollower:
    """The access control lists of one mirror's topics, by connections of the caller.

    Args:
        remote: Returns the name in the target of a topic of the source.
        interval: How often they are copied again, in seconds. Those of further topics are copied at once.
        source: Connections to the source.
        target: Connections to the target.
    """

    def __init__(self, remote: Callable[[str], str], interval: float, source: Admin, target: Admin) -> None:
        self._remote, self._interval = remote, interval
        self._source, self._target = source, target
        self._due_at = 0.0
        self._followed: frozenset[str] = frozenset()
        self._copied: set[AclBinding] = set()
        self._said: set[str] = set()
        """The messages that were logged, and are not logged again before the operation has worked."""

    def follow(self, topics: Collection[str]) -> None:
        """Create in the target what these topics of the source have, if it is time. What is refused is said once.

        Raises:
            KafkaError, ClientError: A cluster cannot be asked.
        """
        if self._followed.issuperset(topics) and (not topics or time.monotonic() < self._due_at):
            return
        bindings = self._of_source()
        if bindings:
            self._create(target_bindings(bindings, topics, self._remote))
        self._followed = frozenset(topics)
        self._due_at = time.monotonic() + self._interval

    def _of_source(self) -> list[AclBinding]:
        try:
            return self._source.acls.describe(_OF_TOPICS)
        except SecurityDisabledError:
            # As in most clusters: there is nothing to copy.
            self._say(logging.INFO, "the source has no authorizer: no ACLs are copied")
        except ClusterAuthorizationFailedError:
            self._say(
                logging.WARNING,
                "ACLs are not copied: the mirror needs Describe on the source's cluster for that. Allow it, or set "
                "sync.topic.acls.enabled=false",
            )
        return []

    def _create(self, wanted: list[AclBinding]) -> None:
        refused: set[str] = set()
        for binding, error in self._target.acls.try_to_create(wanted):
            if error is None:
                if binding not in self._copied:
                    logger.info("topic %s: copied an ACL of %s", binding.name, binding.principal)
                self._copied.add(binding)
            else:
                text = _refusal(error)
                refused.add(text)
                self._say(logging.WARNING, text)
        self._said &= refused

    def _say(self, level: int, text: str) -> None:
        if text not in self._said:
            logger.log(level, "%s", text)
            self._said.add(text)


def _refusal(error: KafkaError) -> str:
    if isinstance(error, SecurityDisabledError):
        return (
            "ACLs are not copied: the source has some, and the target has no authorizer, so that all may do all there. "
            "Set sync.topic.acls.enabled=false if this is meant"
        )
    if isinstance(error, ClusterAuthorizationFailedError):
        return (
            "ACLs are not copied: the mirror needs Alter on the target's cluster for that. Allow it, or set "
            "sync.topic.acls.enabled=false"
        )
    return f"not copied: {error}"
