"""A broker over real sockets that limits how long authenticated sessions last (KIP-368)."""

from __future__ import annotations

from kafkalog.client.network.connection import Connection
from kafkalog.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from kafkalog.protocol.messages.produce import ProduceRequest
from kafkalog.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kafkalog.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from tests.support.scripted import Answer, ScriptedBroker, metadata, taken


class Sessions(ScriptedBroker):
    """A broker whose sessions last as long as `lifetimes` says; `sent` has the steps of SASL in their order."""

    def __init__(self, *lifetimes: int) -> None:
        super().__init__(
            {
                SaslHandshakeRequest: self._shake_hands,
                SaslAuthenticateRequest: self._authenticate,
                MetadataRequest: self._describe,
                ProduceRequest: self._take,
            }
        )
        self.lifetimes = list(lifetimes)
        self.order: list[str] = []
        self.refusal: Answer = None
        """The answer to the next steps of the handshake; None to go on."""

    def _shake_hands(self, request: SaslHandshakeRequest) -> Answer:
        self.order.append("handshake")
        return SaslHandshakeResponse(mechanisms=["PLAIN"]) if self.refusal is None else self.refusal

    def _authenticate(self, request: SaslAuthenticateRequest) -> Answer:
        self.order.append("authenticate")
        return SaslAuthenticateResponse(session_lifetime_ms=self.lifetimes.pop(0) if self.lifetimes else 0)

    def _describe(self, request: MetadataRequest) -> Answer:
        if not request.topics:
            return metadata({1: self}, {})
        self.order.append(request.topics[0].name or "")
        return MetadataResponse(cluster_id=request.topics[0].name)

    def _take(self, request: ProduceRequest) -> Answer:
        self.order.append("produce")
        return taken(request)


def ask(name: str) -> MetadataRequest:
    """Make a request whose response has the name as the cluster's id."""
    return MetadataRequest(topics=[MetadataRequestTopic(name=name)])


def make_due(connection: Connection, *, ended: bool = False) -> None:
    """Let the session be near its end, or at its end, and let it have lasted for some time."""
    session = connection._authentication
    session._reauthenticate_at = session._authenticated_at = float("-inf")
    if ended:
        session._session_ends = float("-inf")
