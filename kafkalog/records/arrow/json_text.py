"""Check that values can be embedded in a larger JSON document. Needs pyarrow; the loop is compiled."""

from __future__ import annotations

import pyarrow as pa

from kafkalog.records.kernels import loader


def first_not_enclosed(values: pa.Array) -> int:
    """Return the index of the first value that would break a document around it; the number of values if none would.

    `values` are binary without nulls. A value is safe where it closes exactly the strings and brackets that it opens,
    and where no comma or colon is outside of brackets. Whether the value is valid JSON is not checked, nor whether the
    kinds of brackets match: a parser does that.
    """
    loader.load("text")
    from kafkalog.records.kernels.compiled.text import first_not_enclosed

    _, offsets, data = values.buffers()
    if not len(values) or offsets is None:
        return 0
    address = 0 if data is None else data.address
    return int(first_not_enclosed(offsets.address, address, values.offset, len(values)))
