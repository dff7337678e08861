"""The producer id that all processes of a mirror share, for targets that give records the next offset themselves.

A coordinator forgets a transactional id that nobody uses for `transactional.id.expiration.ms`, a week by default. The
next process would get another producer id then. With two ids at work, the broker's check of sequence numbers would no
longer keep a process that stood still from writing records that the other one has written. So each process asks again
once a day, which counts as a use.
"""

from __future__ import annotations

import logging
from concurrent.futures import Future

from kafkalog.client.admin import Admin
from kafkalog.client.errors import ClientError, KafkaError, is_retriable
from kafkalog.client.transactions.requests import TransactionRequests
from kafkalog.mirror.copying.rechecker import Rechecker
from kafkalog.mirror.rechecks import CHECK_S
from kafkalog.records.batch import NO_PRODUCER_ID

logger = logging.getLogger(__name__)

ASK_AGAIN_S = 24 * 3600.0


class OtherProducerIdError(ClientError):
    """The mirror has another producer id now. A new worker goes on with that one."""

    retriable = True


class SharedProducerId:
    """The producer id that the target knows under a transactional id. Times are those of `time.monotonic`.

    Args:
        target: The target.
        transactional_id: The mirror's.
        rechecker: Asks again, in its thread and by its connections.

    Attributes:
        value: The id; -1 before `ask`.
    """

    def __init__(self, target: Admin, transactional_id: str, rechecker: Rechecker) -> None:
        self._target, self._transactional_id = target, transactional_id
        self._rechecker = rechecker
        self._found = NO_PRODUCER_ID
        """The answer to the last question, which may still be under way."""
        self._asking: Future[None] | None = None
        self._due_at = 0.0
        self.value = NO_PRODUCER_ID

    def ask(self, now: float) -> int:
        """Return the id, as the target has it now.

        Raises:
            KafkaError, ClientError: The target does not tell it.
        """
        self._ask(self._target)
        self.value, self._due_at = self._found, now + ASK_AGAIN_S
        return self.value

    def check(self, now: float) -> None:
        """Begin to ask again, if there is an id and it is time; see to the answer, once it is there.

        Raises:
            OtherProducerIdError: It is another one now.
            KafkaError, ClientError: The target refuses to tell it.
        """
        if self._asking is not None and self._asking.done():
            asking, self._asking = self._asking, None
            self._take(asking, now)
        elif self._asking is None and self.value != NO_PRODUCER_ID and now >= self._due_at:
            self._asking = self._rechecker.begin(lambda: self._ask(self._rechecker.target))

    def _take(self, asking: Future[None], now: float) -> None:
        try:
            asking.result()
        except (KafkaError, ClientError) as error:
            if not is_retriable(error):
                raise
            # The coordinator remembers the transactional id for days.
            self._due_at = now + CHECK_S
            logger.warning("the producer id of %s could not be asked for: %s", self._transactional_id, error)
            return
        self._due_at = now + ASK_AGAIN_S
        if self._found != self.value:
            raise OtherProducerIdError(
                f"transactional id {self._transactional_id} had producer id {self.value}, and has {self._found} now"
            )

    def _ask(self, target: Admin) -> None:
        with TransactionRequests(target.cluster, self._transactional_id) as requests:
            self._found = requests.init().producer_id
