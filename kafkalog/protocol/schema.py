"""The notation of the protocol tables.

A message is a class; each field is one line with its type and its versions::

    class MetadataRequestTopic(Struct):
        topic_id: UUID = uuid("10+", ignorable=True)
        name: str | None = string("0+", nullable="10+")

    class MetadataRequest(Request, key=3, versions="0-12", flexible="9+"):
        topics: list[MetadataRequestTopic] | None = array(MetadataRequestTopic, "0+", nullable="1+")

Field names are Kafka's in snake case, field order is the order on the wire. `versions` are `"3"`,
`"3-5"` or `"3+"`, both ends included. Besides its versions, a field can have:

- `nullable`: the versions in which it may be None. Elsewhere None cannot be encoded, and is malformed when
  decoded.
- `default`: what decoding gives where the version has no such field. Zero, empty and False unless said.
- `ignorable`: encoding a version without the field silently leaves a value out. Without it, a value other
  than the default is an error, because the peer would act on a request that it was not sent.
- `tag`: in flexible versions the field travels in the tagged section at the end of its structure, and only
  when it differs from its default (KIP-482).

Constructors take every field by keyword, and every field has a default. A structure inside a structure is
built when it is first read, so that defaults cost nothing. Instances are mutable, compare by value and are
not hashable.

The semantics are those of Apache Kafka's message generator
(`clients/src/main/resources/common/message/README.md`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias, TypeVar, cast, dataclass_transform
from uuid import UUID

Records: TypeAlias = Any
"""Record batches: a memoryview of the input where decoded; for encoding, any object with a length."""

ZERO_UUID = UUID(int=0)
"""The topic id in messages about a topic without an id."""
FIRST_OWN_TAG = 10_000
"""Fields with this tag or a larger one are this product's.

Apache Kafka counts its tags from 0 on in each structure, and skips those that it does not know (KIP-482)."""

_LAST_VERSION = 0x7FFF


@dataclass(frozen=True, slots=True)
class Versions:
    """A range of versions, both ends included; empty when `last` is below `first`."""

    first: int
    last: int

    @classmethod
    def parse(cls, text: str) -> Versions:
        if text == "none":
            return NO_VERSIONS
        if text.endswith("+"):
            return cls(int(text[:-1]), _LAST_VERSION)
        first, _, last = text.partition("-")
        return cls(int(first), int(last or first))

    def __contains__(self, version: int) -> bool:
        return self.first <= version <= self.last

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.first, self.last + 1))


NO_VERSIONS = Versions(0, -1)


@dataclass(frozen=True, slots=True)
class Scalar:
    """A type that is not a structure. `code` is its `struct` format, empty if the length varies."""

    name: str
    code: str
    size: int
    zero: Any


BOOLEAN = Scalar("boolean", "?", 1, False)
INT8 = Scalar("int8", "b", 1, 0)
INT16 = Scalar("int16", "h", 2, 0)
UINT16 = Scalar("uint16", "H", 2, 0)
INT32 = Scalar("int32", "i", 4, 0)
UINT32 = Scalar("uint32", "I", 4, 0)
INT64 = Scalar("int64", "q", 8, 0)
FLOAT64 = Scalar("float64", "d", 8, 0.0)
UUID_ = Scalar("uuid", "16s", 16, ZERO_UUID)
STRING = Scalar("string", "", 0, "")
BYTES = Scalar("bytes", "", 0, b"")
RECORDS = Scalar("records", "", 0, None)


@dataclass(frozen=True, slots=True)
class Field:
    """One line of a table."""

    name: str
    type: Scalar | type[Struct]
    is_array: bool
    versions: Versions
    nullable: Versions
    tag: int | None
    tagged: Versions
    default: Any
    ignorable: bool

    @property
    def slot(self) -> str:
        """The attribute with the value: another one than `name` if the value is made when first read."""
        return f"_{self.name}" if self.is_lazy else self.name

    @property
    def is_lazy(self) -> bool:
        return isinstance(self.type, type) and not self.is_array and self.default is not None


class _Unset:
    """The type of the default of a structure, or of a field whose table line gives none."""

    def __repr__(self) -> str:
        return "UNSET"


UNSET: Any = _Unset()


def _field(
    type_: Scalar | type[Struct], versions: str, nullable: str, tag: int | None, tagged: str | None,
    default: Any, ignorable: bool, is_array: bool = False,
) -> Any:  # fmt: skip
    if default is UNSET:
        if is_array:
            default = []
        elif isinstance(type_, Scalar):
            default = type_.zero
    present = Versions.parse(versions)
    in_tags = NO_VERSIONS if tag is None else Versions.parse(tagged) if tagged else present
    return Field("", type_, is_array, present, Versions.parse(nullable), tag, in_tags, default, ignorable)


def _scalar(type_: Scalar) -> Callable[..., Any]:
    def declare(
        versions: str, *, nullable: str = "none", tag: int | None = None, tagged: str | None = None,
        default: Any = UNSET, ignorable: bool = False,
    ) -> Any:  # fmt: skip
        return _field(type_, versions, nullable, tag, tagged, default, ignorable)

    declare.__name__ = type_.name
    declare.__doc__ = f"Declare a field of type {type_.name}."
    return declare


boolean = _scalar(BOOLEAN)
int8 = _scalar(INT8)
int16 = _scalar(INT16)
uint16 = _scalar(UINT16)
int32 = _scalar(INT32)
uint32 = _scalar(UINT32)
int64 = _scalar(INT64)
float64 = _scalar(FLOAT64)
uuid = _scalar(UUID_)
string = _scalar(STRING)
bytes_ = _scalar(BYTES)
records_ = _scalar(RECORDS)


def array(
    of: Scalar | type[Struct], versions: str, *, nullable: str = "none", tag: int | None = None,
    tagged: str | None = None, default: Any = UNSET, ignorable: bool = False,
) -> Any:  # fmt: skip
    """Declare an array of structures, or of a type such as `INT32`."""
    return _field(of, versions, nullable, tag, tagged, default, ignorable, is_array=True)


def struct(
    of: type[Struct], versions: str, *, nullable: str = "none", tag: int | None = None,
    tagged: str | None = None, default: Any = UNSET, ignorable: bool = False,
) -> Any:  # fmt: skip
    """Declare a structure; `default=None` for one that is null unless set."""
    return _field(of, versions, nullable, tag, tagged, default, ignorable)


def _lazy_property(field: Field) -> property:
    slot = field.slot
    of = cast("type[Struct]", field.type)

    def get(self: Struct) -> Struct:
        value: Struct | None = getattr(self, slot)
        if value is None:
            value = of()
            setattr(self, slot, value)
        return value

    def put(self: Struct, value: Struct | None) -> None:
        setattr(self, slot, value)

    return property(get, put)


@dataclass_transform(kw_only_default=True)
class _StructMeta(type):
    """Turns the lines of a class body into `__slots__` and `fields`."""

    def __new__(mcs, name: str, bases: tuple[type, ...], body: dict[str, Any], **options: Any) -> _StructMeta:
        fields = []
        for key, value in list(body.items()):
            if isinstance(value, Field):
                field = Field(
                    key, value.type, value.is_array, value.versions, value.nullable, value.tag, value.tagged,
                    value.default, value.ignorable,
                )  # fmt: skip
                fields.append(field)
                del body[key]
                if field.is_lazy:
                    body[key] = _lazy_property(field)
        body["__slots__"] = tuple(field.slot for field in fields)
        body["fields"] = tuple(fields)
        return super().__new__(mcs, name, bases, body, **options)


class Struct(metaclass=_StructMeta):
    """A structure of the protocol."""

    fields: ClassVar[tuple[Field, ...]]

    def __init__(self, **values: Any) -> None:
        # The first construction generates the constructor, because most classes of a process are never used.
        cls = type(self)
        cls.__init__ = _write_constructor(cls)  # type: ignore[method-assign]
        cls.__init__(self, **values)

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(_same(getattr(self, field.name), getattr(other, field.name)) for field in self.fields)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        shown = (f"{field.name}={getattr(self, field.name)!r}" for field in self.fields)
        return f"{type(self).__name__}({', '.join(shown)})"


def _same(one: Any, other: Any) -> bool:
    # Arrays may be given as tuples, and bytes as any buffer.
    if isinstance(one, tuple):
        one = list(one)
    if isinstance(other, tuple):
        other = list(other)
    return bool(one == other)


def _write_constructor(cls: type[Struct]) -> Callable[..., None]:
    parameters = []
    body = []
    scope: dict[str, Any] = {"UNSET": UNSET}
    for field in cls.fields:
        name = field.name
        if field.is_array and field.default is not None:
            parameters.append(f"{name}=UNSET")
            body.append(f" self.{name} = [] if {name} is UNSET else {name}")
        elif field.is_lazy:
            parameters.append(f"{name}=None")
            body.append(f" self.{field.slot} = {name}")
        else:
            scope[f"default_{name}"] = field.default
            parameters.append(f"{name}=default_{name}")
            body.append(f" self.{name} = {name}")
    arguments = ", ".join(["self", *(["*", *parameters] if parameters else [])])
    source = f"def __init__({arguments}):\n" + ("\n".join(body) or " pass")
    exec(compile(source, f"<{cls.__qualname__}.__init__>", "exec"), scope)
    return cast("Callable[..., None]", scope["__init__"])


class Message(Struct):
    """A top-level structure, which has its own versions."""

    min_version: ClassVar[int]
    max_version: ClassVar[int]
    flexible_versions: ClassVar[Versions]
    """Versions with compact lengths and tagged fields (KIP-482)."""

    def __init_subclass__(cls, *, versions: str = "none", flexible: str = "none") -> None:
        spoken = Versions.parse(versions)
        cls.min_version = spoken.first
        cls.max_version = spoken.last
        cls.flexible_versions = Versions.parse(flexible)


class Response(Message):
    """The answer to a request."""

    api_key: ClassVar[int]

    def __init_subclass__(cls, *, key: int = -1, versions: str = "none", flexible: str = "none") -> None:
        super().__init_subclass__(versions=versions, flexible=flexible)
        cls.api_key = key
        if key >= 0:
            _responses[key] = cls


class Request(Message):
    """A request of an API; its response is `response_type`, declared before it in the same module."""

    api_key: ClassVar[int]
    response_type: ClassVar[type[Response]]

    def __init_subclass__(cls, *, key: int = -1, versions: str = "none", flexible: str = "none") -> None:
        super().__init_subclass__(versions=versions, flexible=flexible)
        cls.api_key = key
        if key >= 0:
            cls.response_type = _responses[key]


_responses: dict[int, type[Response]] = {}

M = TypeVar("M", bound=Message)
