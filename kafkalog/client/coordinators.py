"""Find the brokers that coordinate consumer groups and transactions, and find them again where they have moved.

The coordinator of a group id or a transactional id is the leader of one partition of `__consumer_offsets` or
`__transaction_state`. FindCoordinator names that broker. The coordinator moves with the partition's leader: then the
old one answers NOT_COORDINATOR, and the new one COORDINATOR_LOAD_IN_PROGRESS until it has read the partition.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from enum import IntEnum
from typing import Any, TypeVar

from kafkalog.client.cluster import Cluster
from kafkalog.client.errors import ClientTimeoutError, ConnectionFailedError, about
from kafkalog.client.metadata import Broker
from kafkalog.protocol.errors import CoordinatorNotAvailableError, NotCoordinatorError, error_for
from kafkalog.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kafkalog.protocol.schema import Request

T = TypeVar("T")

_ONE_KEY = 3
"""FindCoordinator 4 asks for many keys at once."""
_MOVED = (NotCoordinatorError, CoordinatorNotAvailableError, ConnectionFailedError, ClientTimeoutError)


class CoordinatorType(IntEnum):
    """The kinds of coordinators, as FindCoordinator numbers them."""

    GROUP = 0
    TRANSACTION = 1

    def __str__(self) -> str:
        return "group" if self is CoordinatorType.GROUP else "transactional id"


class Coordinators:
    """Keep the coordinators of a cluster by kind and key. Safe for use by several threads.

    Requests share the cluster's connections. A request that a broker answers late, such as JoinGroup, needs a
    connection of its own: use `Cluster.connect` with the broker that `find` returns.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._lock = threading.Lock()
        self._found: dict[tuple[CoordinatorType, str], Broker] = {}

    def find(self, kind: CoordinatorType, key: str, *, deadline: float | None = None) -> Broker:
        """Return the coordinator of `key`: from memory, or by asking until `deadline`.

        `deadline` is a time of `time.monotonic` (`default.api.timeout.ms` from now unless given).

        Raises:
            ClientTimeoutError: None was found by `deadline`.
            KafkaError: The broker reports an error that is not retriable, such as GroupAuthorizationFailedError. It is
                raised at once.
        """
        retry = self._cluster.retry(deadline)
        return retry.run(lambda: self.find_now(kind, key, deadline=retry.deadline))

    def find_now(self, kind: CoordinatorType, key: str, *, deadline: float | None = None) -> Broker:
        """Do as `find` does, but ask only once.

        Raises:
            CoordinatorNotAvailableError, CoordinatorLoadInProgressError: The broker reports it.
        """
        with self._lock:
            known = self._found.get((kind, key))
        if known is not None:
            return known
        request = FindCoordinatorRequest(key=key, key_type=kind)
        answer: FindCoordinatorResponse = self._cluster.request_any(request, deadline=deadline, max_version=_ONE_KEY)
        if answer.error_code:
            raise about(answer.error_code, f"{kind} {key}", answer.error_message)
        found = Broker(answer.node_id, answer.host, answer.port)
        # Metadata may be older, and have the address of a machine that the broker has left.
        self._cluster.learn_broker(found)
        with self._lock:
            self._found[kind, key] = found
        return found

    def forget(self, kind: CoordinatorType, key: str) -> None:
        """Forget the coordinator of `key`, so that it is looked up before its next use."""
        with self._lock:
            self._found.pop((kind, key), None)

    def notice(self, kind: CoordinatorType, key: str, error: BaseException) -> None:
        """Forget the coordinator of `key` where `error`, raised by a request to it, may mean that it has moved."""
        if isinstance(error, _MOVED):
            self.forget(kind, key)

    def run(
        self,
        kind: CoordinatorType,
        key: str,
        attempt: Callable[[Broker, float], T],
        *,
        deadline: float | None = None,
        steady: Mapping[type[Exception], float] | None = None,
    ) -> T:
        """Call `attempt(coordinator, timeout in seconds)` until it returns; look the coordinator up as needed.

        `attempt` raises the errors that the coordinator reports. Retriable errors, lost connections among them, are
        retried until `deadline` as in `find`, after pauses that grow but for the errors of `steady` (`Retry`). Other
        errors are raised at once.
        """
        retry = self._cluster.retry(deadline, steady)
        most = self._cluster.config.request_timeout

        def once() -> T:
            coordinator = self.find_now(kind, key, deadline=retry.deadline)
            return attempt(coordinator, min(most, max(retry.left, 0.001)))

        return retry.run(once, lambda error: self.notice(kind, key, error))

    def request(
        self,
        kind: CoordinatorType,
        key: str,
        message: Request,
        check: Callable[[Any], None] | None = None,
        *,
        deadline: float | None = None,
        max_version: int | None = None,
        min_version: int = 0,
    ) -> Any:
        """Send a request to the coordinator of `key` and return its response.

        `check` takes the response and raises the error that it reports. Unless it is given, the response's
        `error_code` is raised. Retries and raises as `run` does.
        """

        def attempt(coordinator: Broker, timeout: float) -> Any:
            answer = self._cluster.request_to(
                coordinator.node_id, message, timeout=timeout, max_version=max_version, min_version=min_version
            )
            (check or _check)(answer)
            return answer

        return self.run(kind, key, attempt, deadline=deadline)


def _check(answer: Any) -> None:
    if answer.error_code:
        raise error_for(answer.error_code)
