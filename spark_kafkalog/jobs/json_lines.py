"""JSON objects as Spark SQL expressions: check them, get a member, add a member; without a schema.

The expressions run inside the JVM, and nothing in them raises. An object's own text is kept byte for byte: numbers keep
their digits, members their order.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Column

NO_VALUE = "the record has no value"
NO_OBJECT = "not a JSON object"
HAS_MEMBER = "the object has a member already of the name that the lookup adds"
REASONS = (NO_VALUE, NO_OBJECT, HAS_MEMBER)
"""The reasons why a record is not enriched, in the order of the checks."""

PATH = re.compile(r"\$(?:\.[A-Za-z_][A-Za-z0-9_]*|\['[^'\]]+'\]|\[[0-9]+\])+", re.ASCII)
"""A path to a member, such as `$.request.host`, `$['user-agent']` or `$.peers[0].id`."""

_END = "2f0f6dc4-end-of-the-record-b7a1c1f0"
"""Added after a record's text before it is parsed; no text may have it."""


def reason(value: Column, *members: str) -> Column:
    """Return why a record's value (binary) is no JSON object to which `members` can be added; null if it is one.

    Spark's parser takes no object with a name twice, or with half of a surrogate pair as an escape.
    """
    from pyspark.sql import functions as F  # noqa: N812

    text = value.cast("string")
    # Spark's parsers stop at the end of the first value and ignore what follows. Within an array that text is parsed
    # too.
    parsed = F.try_parse_json(F.concat(F.lit("["), text, F.lit(f',"{_END}"]')))
    # The parser would put other characters in place of bytes that are no text.
    is_text = F.is_valid_utf8(text)
    alone = F.try_variant_get(parsed, "$[1]", "string") == _END
    is_object = F.startswith(F.schema_of_variant(F.try_variant_get(parsed, "$[0]", "variant")), F.lit("OBJECT"))
    has = F.arrays_overlap(F.json_object_keys(text), F.array(*(F.lit(name) for name in members)))
    return (
        F.when(value.isNull(), NO_VALUE)
        .when(F.contains(text, F.lit(_END)) | ~F.coalesce(is_text & alone & is_object, F.lit(False)), NO_OBJECT)
        .when(F.coalesce(has, F.lit(False)), HAS_MEMBER)
    )


def member(value: Column, path: str) -> Column:
    """Return the member at the path, as text; null if it does not exist."""
    from pyspark.sql import functions as F  # noqa: N812

    return F.get_json_object(value.cast("string"), path)


def with_members(value: Column, added: Column) -> Column:
    """Return the text of an object with the members of the structure `added` after its own."""
    from pyspark.sql import functions as F  # noqa: N812

    own = F.regexp_replace(value.cast("string"), r"\}[ \t\r\n]*+(?![\s\S])", "")
    between = F.when(F.regexp_like(own, F.lit(r"\{[ \t\r\n]*+(?![\s\S])")), "").otherwise(",")
    more = F.substring(F.to_json(added, {"ignoreNullFields": "false"}), 2, 1 << 30)
    return F.concat(own, between, more)
