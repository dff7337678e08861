"""Features of a cluster: the levels that brokers support, and those that are in use (KIP-584)."""

from __future__ import annotations

from typing import NamedTuple

import kafkalog
from kafkalog.client.cluster import Cluster
from kafkalog.client.errors import about
from kafkalog.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kafkalog.protocol.wire.core import SOFTWARE_NAME


class Feature(NamedTuple):
    """The levels of a feature that the broker supports, and the finalized level; 0 where it is not in use."""

    min_level: int
    max_level: int
    finalized: int


class Features(NamedTuple):
    """The features of a cluster by name, and the epoch of the finalized ones, if there are any."""

    features: dict[str, Feature]
    epoch: int | None


def describe_features(cluster: Cluster) -> Features:
    """Ask a broker for the features of the cluster; brokers before Kafka 2.4 know of none.

    Raises:
        ClientTimeoutError: No broker answers in time.
    """
    request = ApiVersionsRequest(client_software_name=SOFTWARE_NAME, client_software_version=kafkalog.__version__)
    response: ApiVersionsResponse = cluster.request_any(request)
    if response.error_code:
        raise about(response.error_code, "features")
    finalized = {each.name: each.max_version_level for each in response.finalized_features}
    return Features(
        {
            each.name: Feature(each.min_version, each.max_version, finalized.get(each.name, 0))
            for each in response.supported_features
        },
        None if response.finalized_features_epoch < 0 else response.finalized_features_epoch,
    )
