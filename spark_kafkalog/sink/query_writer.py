"""The common part of both writers: a claim before the tasks begin, commit or abort after them."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import WriterCommitMessage

from spark_kafkalog.brief import brief
from spark_kafkalog.executor import jvm_socket
from spark_kafkalog.sink.message import TaskWrote, tell, written_together
from spark_kafkalog.sink.sink_columns import SinkColumns
from spark_kafkalog.sink.sink_options import SinkOptions

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from spark_kafkalog.sink.transactional.claim import Claim
    from spark_kafkalog.sink.transactional.commit_driver import Driver

Messages = Sequence[WriterCommitMessage | None]
logger = logging.getLogger(__name__)


class QueryWriter:
    """Writes one batch query, or one micro-batch.

    PySpark makes one writer in a process of the driver's, pickles it for the tasks, and makes another to commit or
    abort. Nothing but the pickling tells that the tasks are about to begin, so the claim is made then.
    """

    _options: SinkOptions
    _columns: SinkColumns
    _claim: Claim | None = None
    _streaming = False

    @brief
    def __getstate__(self) -> dict[str, Any]:
        if self._options.once is not None and self._claim is None:
            self._claim = self._driver().claim()
        # Tasks log in by the delegation token that the driver has, if there is one.
        return self.__dict__ | {"_options": self._options.logged_in()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        jvm_socket.hurry()

    @brief
    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskWrote:
        """Write the rows of one task."""
        from spark_kafkalog.sink.task_writer import write_rows

        return write_rows(iterator, self._options, self._columns, self._claim, streaming=self._streaming)

    def _commit(self, messages: Messages, batch: int | None, what: str) -> None:
        together = written_together(messages)
        if self._options.once is None or together is None:
            pass
        elif not self._driver().commit(together, batch):
            logger.warning("%s was written before; it is not written again", what)
            return
        tell(logging.INFO, f"{what} wrote %s", messages)

    def _abort(self, messages: Messages) -> bool:
        """Abort the transactions of finished tasks; False without the transactional mode, where that is impossible."""
        if self._options.once is None:
            return False
        together = written_together(messages)
        if together is not None:
            self._driver().abort(together)
        return True

    def _driver(self) -> Driver:
        from spark_kafkalog.sink.transactional.commit_driver import Driver

        once = self._options.logged_in().once
        assert once is not None
        return Driver(once)
