"""The Python reference: the public names of the client, the records and the Spark source, from their docstrings.

A page lists for each name its signature and docstring; for a class, its public methods, properties and fields too, each
field with the string below it. The order is that of `__all__`.
"""

from __future__ import annotations

import ast
import dataclasses
import enum
import inspect
import re
import textwrap
from collections.abc import Iterator
from importlib import import_module
from itertools import pairwise
from typing import Any, NamedTuple


class Page(NamedTuple):
    """A page: its title, a sentence about it, and its modules. `module:name` shows one name only."""

    title: str
    about: str
    modules: tuple[str, ...]


PAGES = {
    "producer.md": Page(
        "Producer",
        "Send records. How to use it: [producing from Python](../../how-to/producer.md).",
        ("kafkalog.client.producer",),
    ),
    "consumer.md": Page(
        "Consumer",
        "Read records, alone or in a group. How to use it: [the consumer](../../how-to/consumer.md).",
        ("kafkalog.client.consumer",),
    ),
    "connector.md": Page(
        "Consumer connector",
        "The consumer of Kafka 0.8. How to use it: [consumers of Kafka 0.8](../../how-to/zookeeper-consumers.md).",
        ("kafkalog.client.connector",),
    ),
    "old-producer.md": Page(
        "Old producer",
        "The producer of Kafka 0.7 and 0.8. How to use it: "
        "[producers of Kafka 0.7 and 0.8](../../how-to/zookeeper-consumers.md#producers-of-kafka-07-and-08).",
        ("kafkalog.client.old_producer",),
    ),
    "admin.md": Page(
        "Administration",
        "Topics, configurations, groups, quotas, replicas, transactions, ACLs. How to: [tools](../../how-to/tools.md).",
        ("kafkalog.client.admin",),
    ),
    "client.md": Page(
        "Values and errors of the clients",
        "What the producer, the consumer and the administration take, return and raise.",
        ("kafkalog.client.types", "kafkalog.client.errors", "kafkalog.client.config:ClientConfig"),
    ),
    "records.md": Page(
        "Record batches",
        "Bytes to records and back, without a broker: pure functions.",
        ("kafkalog.records.batch", "kafkalog.records.arrow", "kafkalog.records.errors"),
    ),
    "spark.md": Page(
        "Options of the Spark source and sink",
        "How options become values. What they mean: [the Spark source](../spark.md), [the sink](../sink.md).",
        ("spark_kafkalog.options.source_options:SourceOptions", "spark_kafkalog.sink.sink_options:SinkOptions"),
    ),
}
_HEAD = "Made by `python -m tools.reference` from the docstrings."
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")
_QUOTED = re.compile(r"(?::[a-z]+:)?(`{1,2})([^`]+)\1")
_SECTIONS = ("Args:", "Attributes:", "Raises:")
_SECTION_ENTRY = re.compile(r" {4}(\*{0,2}[A-Za-z_][\w.]*(?:, [A-Za-z_][\w.]*)*): (.+)")


def public(module: Any) -> list[str]:
    """Return a module's public names: `__all__`, or the classes and functions that it defines."""
    listed = getattr(module, "__all__", None)
    if listed is not None:
        return list(listed)
    return [
        name
        for name, value in vars(module).items()
        if not name.startswith("_")
        and (inspect.isclass(value) or inspect.isfunction(value))
        and value.__module__ == module.__name__
    ]


def _own_doc(value: Any) -> str:
    """Return the value's own docstring, or nothing if a dataclass or an enum generated it."""
    doc = vars(value).get("__doc__") if inspect.isclass(value) else getattr(value, "__doc__", None)
    if not doc or (inspect.isclass(value) and doc.startswith(f"{value.__name__}(")):
        return ""
    return list_sections(_QUOTED.sub(r"`\2`", inspect.cleandoc(doc)))


def list_sections(doc: str) -> str:
    """Make the entries of each section a list: Markdown would put all of them into one paragraph.

    The bullets are not those of a class's members, which would be part of the same list otherwise.
    """
    lines: list[str] = []
    within = False
    for line in doc.splitlines():
        if line in _SECTIONS:
            within = True
            lines += [line, ""]
            continue
        within = within and line.startswith("    ")
        found = _SECTION_ENTRY.fullmatch(line) if within else None
        if found is not None:
            names = ", ".join(f"`{name}`" for name in found[1].split(", "))
            lines.append(f"* {names}: {found[2]}")
        else:
            lines.append(f"  {line.strip()}" if within else line)
    return "\n".join(lines)


def _signature(name: str, value: Any, *, method: bool = False) -> str:
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return name
    parameters = list(signature.parameters.values())
    if method and parameters and parameters[0].name in ("self", "cls"):
        parameters = parameters[1:]
    shown = [
        each.replace(default=_Shown(each.default)) if each.default is not inspect.Parameter.empty else each
        for each in parameters
    ]
    return name + _ADDRESS.sub("", str(signature.replace(parameters=shown))).replace("'", "").replace("\n", " ")


class _Shown:
    """A default value as text: enums by name, long values as an ellipsis."""

    def __init__(self, value: Any) -> None:
        self._value = value

    def __repr__(self) -> str:
        if isinstance(self._value, enum.Enum):
            return f"{type(self._value).__name__}.{self._value.name}"
        text = repr(self._value)
        return "…" if "<" in text or len(text) > 60 else text


def _members(value: type) -> Iterator[str]:
    """Yield the lines of a class's public members, its own and those of base classes of the product."""
    seen: set[str] = set()
    bases = [base for base in value.__mro__ if base.__module__.partition(".")[0] in ("kafkalog", "spark_kafkalog")]
    for base in bases:
        for name, member in vars(base).items():
            if name.startswith("_") or name in seen:
                continue
            seen.add(name)
            yield from _member(name, member)


def _member(name: str, member: Any) -> Iterator[str]:
    if isinstance(member, classmethod | staticmethod):
        heading, doc = (
            _signature(name, member.__func__, method=isinstance(member, classmethod)),
            _own_doc(member.__func__),
        )
    elif inspect.isfunction(member):
        heading, doc = _signature(name, member, method=True), _own_doc(member)
    elif isinstance(member, property) or hasattr(member, "func"):
        heading, doc = name, _own_doc(member)
    else:
        return
    yield f"- `{heading}`"
    if doc:
        yield ""
        yield from (f"  {line}".rstrip() for line in doc.splitlines())
    yield ""


def _field_docs(value: type) -> dict[str, str]:
    """Return the strings that stand below the fields of a class and of its base classes, by field."""
    docs: dict[str, str] = {}
    bases = [base for base in value.__mro__ if base.__module__.partition(".")[0] in ("kafkalog", "spark_kafkalog")]
    for base in reversed(bases):
        defined = ast.parse(textwrap.dedent(inspect.getsource(base))).body[0]
        assert isinstance(defined, ast.ClassDef)
        for statement, following in pairwise(defined.body):
            match statement, following:
                case (
                    ast.AnnAssign(target=ast.Name(name)) | ast.Assign(targets=[ast.Name(name)]),
                    ast.Expr(ast.Constant(str(doc))),
                ):
                    docs[name] = _QUOTED.sub(r"`\2`", " ".join(doc.split()))
    return docs


def _fields(value: type) -> Iterator[str]:
    if issubclass(value, enum.Enum):
        fields = {each.name: f"`{each.name}` = `{each.value!r}`" for each in value}
    elif dataclasses.is_dataclass(value):
        fields = {field.name: f"`{field.name}: {field.type}`" for field in dataclasses.fields(value)}
    elif hasattr(value, "_fields"):
        fields = {}
        for name in value._fields:
            # A NamedTuple keeps annotations that are text as forward references.
            annotation = value.__annotations__.get(name, "")
            fields[name] = f"`{name}: {getattr(annotation, '__forward_arg__', annotation)}`"
    else:
        return
    docs = _field_docs(value)
    for name, heading in fields.items():
        if not name.startswith("_"):
            yield f"- {heading}: {docs[name]}" if name in docs else f"- {heading}"
    yield ""


def entry(name: str, value: Any) -> Iterator[str]:
    """Yield the lines of one public name."""
    yield f"### {name}"
    yield ""
    if inspect.isclass(value):
        plain = (
            issubclass(value, enum.Enum | BaseException) or dataclasses.is_dataclass(value) or hasattr(value, "_fields")
        )
        if not plain:
            yield f"```text\n{_signature(name, value)}\n```"
            yield ""
        doc = _own_doc(value)
        if not doc and issubclass(value, BaseException) and value.__base__ is not None:
            doc = f"A `{value.__base__.__name__}`."
        yield doc
        yield ""
        yield from _fields(value)
        yield from _members(value)
    elif callable(value) and not isinstance(value, type(Any)):
        yield f"```text\n{_signature(name, value)}\n```"
        yield ""
        yield _own_doc(value)
        yield ""
    else:
        text = repr(value)
        yield f"`{name} = {text if len(text) < 200 and '<' not in text else '…'}`"
        yield ""


def page(about: Page) -> str:
    """Return one page as Markdown."""
    lines = [f"# {about.title}", "", _HEAD, "", about.about, ""]
    for dotted in about.modules:
        path, _, only = dotted.partition(":")
        module = import_module(path)
        lines += [f"## {path}", ""]
        for name in [only] if only else public(module):
            lines += entry(name, getattr(module, name))
    text = "\n".join(lines)
    return re.sub(r"\n{3,}", "\n\n", text).rstrip("\n") + "\n"


def render() -> dict[str, str]:
    """Return each page's file name and text, the index among them."""
    index = ["# Python", "", _HEAD, ""]
    for name, each in PAGES.items():
        modules = ", ".join(f"`{module.partition(':')[0]}`" for module in each.modules)
        index.append(f"- [{each.title}]({name}): {modules}")
    return {"README.md": "\n".join(index) + "\n", **{name: page(each) for name, each in PAGES.items()}}
