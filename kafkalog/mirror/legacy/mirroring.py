"""What the streams of a mirror have in common, whichever kind of group they are in."""

from __future__ import annotations

from dataclasses import dataclass

from kafkalog.client.consumer.topic_filter import TopicFilter
from kafkalog.mirror.legacy.senders import Senders


@dataclass(frozen=True)
class Mirroring:
    """What is mirrored, where it goes to, and how far it may get before it is committed."""

    topics: TopicFilter
    """The topics to mirror."""
    senders: Senders
    """The producers of all streams."""
    commit_interval: float
    """Seconds between commits."""
    abort: bool
    """Whether a record that cannot be delivered ends the stream that read it."""
