"""Which segments are old enough, or too many, to go. Pure: segments in, a number out.

Segments go oldest first and without gaps, never past the high watermark, for three reasons as in Apache
Kafka: everything in them lies before the log start offset (always), their largest timestamp is older than
``retention.ms``, or the log without them still holds ``retention.bytes`` (both only with
``cleanup.policy=delete``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from broker.log.config import LogConfig
from broker.log.segment import Segment


def deletable(
    segments: Sequence[Segment], config: LogConfig, *, log_start_offset: int, log_end_offset: int, high_watermark: int,
    now_ms: int,
) -> int:  # fmt: skip
    """How many of ``segments``, from the first on, are to be deleted; the active one, the last, may be among
    them.

    An empty active segment never is.
    """

    def prefix(start: int, unwanted: Callable[[int], bool]) -> int:
        count = start
        while count < len(segments):
            last = count + 1 == len(segments)
            upper = log_end_offset if last else segments[count + 1].base_offset
            if high_watermark < upper or (last and segments[count].size == 0) or not unwanted(count):
                break
            count += 1
        return count

    count = prefix(0, lambda i: i + 1 < len(segments) and segments[i + 1].base_offset <= log_start_offset)
    if not config.delete:
        return count
    if config.retention_bytes >= 0:
        surplus = sum(segment.size for segment in segments[count:]) - config.retention_bytes

        def over_size(i: int) -> bool:
            nonlocal surplus
            surplus -= segments[i].size
            return surplus >= 0

        count = prefix(count, over_size)
    if config.retention_ms >= 0:
        oldest = now_ms - config.retention_ms
        count = prefix(count, lambda i: segments[i].retention_timestamp() < oldest)
    return count
