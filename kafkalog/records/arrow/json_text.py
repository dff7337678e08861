"""Whether values are text that can stand within a larger JSON document. Needs pyarrow; the loop is compiled."""

from __future__ import annotations

import pyarrow as pa

from kafkalog.records.kernels import loader


def first_not_enclosed(values: pa.Array) -> int:
    """Return the number of the first value that would reach beyond its place in a document; their count if none would.

    `values` are binary without nulls. A value stays in its place where it closes each string and each bracket that it
    opens, and no other, and where no comma or colon stands outside of brackets. Whether it is JSON at all is not looked
    at, nor which kind of bracket closes which: a parser does that.
    """
    loader.load()
    from kafkalog.records.kernels.compiled.text import first_not_enclosed

    _, offsets, data = values.buffers()
    if not len(values) or offsets is None:
        return 0
    address = 0 if data is None else data.address
    return int(first_not_enclosed(offsets.address, address, values.offset, len(values)))
