"""The public path of `GroupAdmin` up to version 0.1; new programs import it from ``kafkalog.client.admin``."""

from kafkalog.client.admin.groups import GroupAdmin

__all__ = ["GroupAdmin"]
