"""The parts that the streams of a mirror have in common, whichever kind of group they are in."""

from __future__ import annotations

from dataclasses import dataclass

from kafkalog.client.consumer.topic_filter import TopicFilter
from kafkalog.mirror.legacy.senders import Senders


@dataclass(frozen=True)
class Mirroring:
    """The topics to mirror, their producers, the interval of commits, and the effect of a failed delivery."""

    topics: TopicFilter
    """The topics to mirror."""
    senders: Senders
    """The producers of all streams."""
    commit_interval: float
    """Seconds between commits."""
    abort: bool
    """True if a record that cannot be delivered ends the stream that read it."""
