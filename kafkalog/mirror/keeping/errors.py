"""The errors that tell why offsets cannot be kept."""

from __future__ import annotations

from kafkalog.client.errors import ClientError


class KeepingError(ClientError):
    """The target cannot have the offsets of the source. Another try does not help; the message names a remedy."""


class MovedError(ClientError):
    """The target's log ends elsewhere than expected: a request was repeated, or another process was faster."""

    retriable = True


class OffsetsIgnoredError(ClientError):
    """The leader of a partition would ignore the offsets of records. Another one may lead when a new worker begins."""


class TargetLostRecordsError(ClientError):
    """The target's log ends before what it has acknowledged; a new worker begins from its present end."""
