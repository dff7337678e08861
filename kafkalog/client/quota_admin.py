"""The public path of `QuotaAdmin` up to version 0.1; new programs import it from ``kafkalog.client.admin``."""

from kafkalog.client.admin.quotas import ANY, CLIENT_ID, IP, USER, ClientQuota, QuotaAdmin

__all__ = ["ANY", "CLIENT_ID", "IP", "USER", "ClientQuota", "QuotaAdmin"]
