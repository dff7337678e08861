"""Asks of handlers to the authorizer.

`Request.allows` and its like answer for one resource. A handler asks before it looks whether a resource exists, so that
who may not know of it learns nothing. `needs_cluster` is for APIs that need a right on the cluster as a whole.

`tests/broker/api/rules_of_clients.py` and `rules_of_administrators.py` state the rights that each served API needs;
`tests/test_authorization_rules.py` fails for one without.
"""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable

from broker.api.context import Request
from kafkalog.protocol.acls import AclOperation, AclResourceType
from kafkalog.protocol.errors import ErrorCode

Handler = Callable[[Request], Awaitable[None] | None]


def needs_cluster(operation: AclOperation) -> Callable[[Handler], Handler]:
    """Return a decorator of handlers: without the right, CLUSTER_AUTHORIZATION_FAILED is the response's error."""

    def decorate(handler: Handler) -> Handler:
        @functools.wraps(handler)
        def serve(request: Request) -> Awaitable[None] | None:
            if request.allows_cluster(operation):
                return handler(request)
            request.refuse(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
            return None

        return serve

    return decorate


class TopicRights:
    """The topics of one request with which its client may do an operation; each topic is asked about once.

    Args:
        request: the request.
        operation: what is to be done.
        all_allowed: whether the answer is yes for all of them, by another right.
    """

    __slots__ = ("_known", "_operation", "_request")

    def __init__(self, request: Request, operation: AclOperation, *, all_allowed: bool = False) -> None:
        self._request = request
        self._operation = operation
        self._known: dict[str, bool] | None = None if all_allowed or request.broker.authorizer is None else {}

    def allow(self, topic: str, count: int = 1) -> bool:
        """Return whether the topic is one of them; `count` is how often the request names it."""
        if self._known is None:
            return True
        found = self._known.get(topic)
        if found is None:
            found = self._request.allows(self._operation, AclResourceType.TOPIC, topic, count=count)
            self._known[topic] = found
        return found
