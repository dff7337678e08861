"""The client's side of a connection, sans-IO: bytes in, events out; no sockets, no clocks.

A driver owns the socket and the deadlines, and moves bytes between the socket and a `Wire`. There are two drivers: the
blocking `kafkalog.client.network.connection` and the broker's `broker.net.links.link`.

- `core`      `Wire`: the states of a connection, and requests matched with responses
- `frames`    length-prefixed frames, received into buffers without a copy
- `versions`  the versions that both sides speak
- `older`     requests for brokers of older releases
- `releases`  the releases of Apache Kafka that introduced APIs and versions, for messages
- `fetch_session`  what the requests of an incremental fetch session name
- `sasl`      mechanisms: PLAIN and SCRAM; `oauthbearer`: OAUTHBEARER; `msk_iam`: AWS_MSK_IAM; `gssapi`: GSSAPI
- `errors` errors of the peer and of the caller
"""
