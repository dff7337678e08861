"""Choose the replica that a consumer should read from: one in its own rack (KIP-392). Pure."""

from __future__ import annotations

from collections.abc import Mapping

from broker.replica.roles import Leader


def nearby_replica(leading: Leader, racks: Mapping[int, str | None], rack: str, offset: int) -> int | None:
    """Return the follower that a consumer in `rack` should read `offset` from; None for the leader.

    As by Kafka's `RackAwareReplicaSelector`: a follower in sync that has the offset, unless the leader is in the rack,
    too. Of several it is the one that has caught up best.

    Args:
        leading: the leader's role.
        racks: the racks of the live brokers that the consumer can reach, by id.
        rack: the consumer's rack; empty for none.
        offset: from where the consumer reads.
    """
    if not rack or racks.get(leading.broker_id) == rack:
        return None
    followers = [
        (state.log_end_offset, state.last_caught_up_ms, replica)
        for replica, state in leading.followers.items()
        if replica in leading.isr
        and racks.get(replica) == rack
        and state.log_start_offset <= offset <= state.log_end_offset
    ]
    return max(followers)[2] if followers else None
