"""The client kcat: it produces text records and prints them as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from peers import kcat
from peers.clients.base import DEFAULT_MAX_REQUEST, ClientError, ForeignClient, Record

_KEY_MARK = "\x1f"


class KcatClient(ForeignClient):
    """The client kcat. Its records are text; it sets no timestamps, and all records have the same headers."""

    name = "kcat"
    features = frozenset({"idempotent", "acks_0", "list_offset"})

    @classmethod
    def missing(cls) -> str | None:
        return kcat.missing()

    def create_topic(self, topic: str, partitions: int = 1, config: Mapping[str, str] | None = None) -> None:
        raise AssertionError("kcat creates no topics")

    def produce(
        self,
        topic: str,
        partition: int,
        records: Sequence[Record],
        *,
        codec: str = "none",
        acks: str = "all",
        idempotent: bool = False,
        transaction: str = "",
        max_request: int = DEFAULT_MAX_REQUEST,
    ) -> list[int]:
        """Produce records; the returned offsets are all -1, because kcat prints none."""
        assert not transaction
        settings = {
            "acks": acks,
            "compression.codec": codec,
            "enable.idempotence": str(idempotent).lower(),
            "message.max.bytes": str(max_request),
            "linger.ms": "100",
        }
        headers = {record.headers for record in records}
        assert len(headers) == 1, "kcat sends the same headers with every record"
        args = ["-P", "-t", topic, "-p", str(partition), "-Z", "-K", _KEY_MARK]
        args += [part for item in settings.items() for part in ("-X", "=".join(item))]
        for name, value in headers.pop():
            args += ["-H", name if value is None else f"{name}={value.decode()}"]
        # -Z: an empty key or value is null
        lines = [f"{(r.key or b'').decode()}{_KEY_MARK}{(r.value or b'').decode()}\n" for r in records]
        try:
            kcat.run_kcat(self.bootstrap, args, stdin="".join(lines).encode())
        except RuntimeError as error:
            raise ClientError(-1, str(error)) from error
        return [-1] * len(records)

    def consume(
        self, topic: str, partition: int, start: int, end: int, *, isolation: str = "read_uncommitted"
    ) -> list[Record]:
        settings = ["-X", f"isolation.level={isolation}", "-X", "auto.offset.reset=error"]
        where = ["-t", topic, "-p", str(partition), "-o", str(start), "-c", str(end - start)]
        out = kcat.run_kcat(self.bootstrap, ["-C", "-q", "-e", "-J", *settings, *where])
        return [_record(json.loads(line)) for line in out.splitlines()]

    def list_offset(self, topic: str, partition: int, at: str) -> tuple[int, int]:
        when = {"earliest": "-2", "latest": "-1"}.get(at, at)
        out = kcat.run_kcat(self.bootstrap, ["-Q", "-t", f"{topic}:{partition}:{when}", "-J"])
        found = json.loads(out)[topic][str(partition)]
        return int(found["offset"]), -1


def _record(message: dict[str, object]) -> Record:
    def raw(name: str) -> bytes | None:
        text = message[name]
        return None if text is None else str(text).encode()

    flat = message.get("headers", [])
    assert isinstance(flat, list)
    pairs = zip(flat[::2], flat[1::2], strict=True)
    return Record(
        key=raw("key"),
        value=raw("payload"),
        headers=tuple((name, None if value is None else value.encode()) for name, value in pairs),
        timestamp=int(str(message["ts"])),
        offset=int(str(message["offset"])),
    )
