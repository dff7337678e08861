"""The producer id that all processes of a mirror share, for targets that give records the next offset themselves.

A coordinator forgets a transactional id that nobody uses for `transactional.id.expiration.ms`, a week by default. The
next process would get another producer id then. With two ids at work, the broker's check of sequence numbers would no
longer keep a process that stood still from writing records that the other one has written. So each process asks again
once a day, which counts as a use.
"""

from __future__ import annotations

from kafkalog.client.cluster import Cluster
from kafkalog.client.errors import ClientError
from kafkalog.client.transactions.requests import TransactionRequests
from kafkalog.records.batch import NO_PRODUCER_ID

ASK_AGAIN_S = 24 * 3600.0


class OtherProducerIdError(ClientError):
    """The mirror has another producer id now. A new worker goes on with that one."""

    retriable = True


class SharedProducerId:
    """The producer id that the target knows under a transactional id. Times are those of `time.monotonic`.

    Attributes:
        value: The id; -1 before `ask`.
    """

    def __init__(self, target: Cluster, transactional_id: str) -> None:
        self._target, self._transactional_id = target, transactional_id
        self.value = NO_PRODUCER_ID
        self._due_at = 0.0

    def ask(self, now: float) -> int:
        """Return the id, as the target has it now.

        Raises:
            KafkaError, ClientError: The target does not tell it.
        """
        with TransactionRequests(self._target, self._transactional_id) as requests:
            self.value = requests.init().producer_id
        self._due_at = now + ASK_AGAIN_S
        return self.value

    def check(self, now: float) -> None:
        """Ask again, if there is an id and it is time.

        Raises:
            OtherProducerIdError: It is another one now.
            KafkaError, ClientError: The target does not tell it.
        """
        if self.value == NO_PRODUCER_ID or now < self._due_at:
            return
        before = self.value
        if self.ask(now) != before:
            raise OtherProducerIdError(
                f"transactional id {self._transactional_id} had producer id {before}, and has {self.value} now"
            )
