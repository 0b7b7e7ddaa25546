"""``python -m hack.protobuffields`` writes the field numbers of Kubernetes' messages from its published Go types. Needs Go.

The struct tags of a Go type have the name of a field in JSON, whether it is omitted when it is empty, and its number. The types
are those of the modules k8s.io/api and k8s.io/apimachinery. A number is never used again, so that the types of several releases
can be read as one: a newer one adds fields, and may lack fields of its alpha features.
"""

import json
import re
import shutil
import subprocess
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

import embedded_apiserver
from embedded_apiserver.kinds.builtin import builtin_kinds

VERSIONS = ("v0.37.2", "v0.36.3", "v0.30.14")
"""The releases whose clients are understood, the newest first."""
FILE = Path(embedded_apiserver.__file__).parent / "wire" / "protobuf_fields.txt"
SCALARS = {"string": "s", "bool": "b", "int": "i", "int32": "i", "int64": "i", "[]byte": "y", "UID": "s"} | {
    "Time": "t", "MicroTime": "u", "Quantity": "q", "IntOrString": "o", "RawExtension": "r"
}  # fmt: skip
IGNORED = {("ObjectMeta", "managedFields")}
"""Fields that a server computes: what a client sends is ignored."""
NOT_STORED = (
    ("authentication", "v1", "TokenRequest"), ("autoscaling", "v1", "Scale"), ("policy", "v1", "Eviction"),
    ("core", "v1", "Binding"), ("authentication", "v1", "SelfSubjectReview"), ("authentication", "v1", "TokenReview"),
    ("authorization", "v1", "SelfSubjectAccessReview"), ("authorization", "v1", "SelfSubjectRulesReview"),
    ("authorization", "v1", "SubjectAccessReview"), ("authorization", "v1", "LocalSubjectAccessReview"),
)  # fmt: skip
"""Kinds that are sent to a server, but not stored by it: group, version, kind."""

_FIELD = re.compile(r"^\s+(?:\w+\s+)?([\w.*\[\]]+)\s+`(.*)`")
_NUMBER = re.compile(r'protobuf:"\w+,(\d+),')


class Package(NamedTuple):
    """The types of a Go package: the fields of each struct with their tags, and what other names stand for."""

    structs: dict[str, list[tuple[str, str]]]
    aliases: Mapping[str, str]
    imports: Mapping[str, str]
    """Paths of packages by the name that the source has for them."""


def parsed(source: str) -> Package:
    """Return the types of Go source."""
    structs: dict[str, list[tuple[str, str]]] = {}
    aliases: dict[str, str] = {}
    fields: list[tuple[str, str]] | None = None
    for line in source.splitlines():
        if head := re.match(r"type (\w+) struct \{", line):
            fields = structs[head[1]] = []
        elif line.startswith("}"):
            fields = None
        elif fields is not None and (field := _FIELD.match(line)):
            fields.append((field[1], field[2]))
        elif alias := re.match(r"type (\w+) (?:= )?([\w.*\[\]]+)\s*(?://.*)?$", line):
            aliases[alias[1]] = alias[2]
    paths = re.findall(r'^(?:import)?\s+(\w+ )?"(k8s\.io/[\w./-]+)"', source, re.MULTILINE)
    return Package(structs, aliases, {name.strip() or path.rpartition("/")[2]: path for name, path in paths})


class Table:
    """The messages of kinds, with those that their fields name, as lines of the file."""

    def __init__(self) -> None:
        self.lines: dict[str, str] = {}
        self._names: dict[tuple[str, str], str] = {}

    def add(self, path: str, struct: str) -> str:
        """Add a message and return its name: with its group before it, if another message has the same name."""
        if (path, struct) in self._names:
            return self._names[path, struct]
        name = f"{path.split('/')[-2]}.{struct}" if struct in self._names.values() else struct
        self._names[path, struct] = name
        self.lines[name] = ""
        fields = [self._field(path, struct, type_, tags) for type_, tags in package(path).structs[struct]]
        self.lines[name] = f"{name}: {', '.join(filter(None, fields))}"
        return name

    def _field(self, path: str, struct: str, type_: str, tags: str) -> str:
        number = _NUMBER.search(tags)
        name, *options = (re.search(r'json:"([^"]*)"', tags) or ["", ""])[1].split(",")
        if number is None:
            return ""
        if (struct, name) in IGNORED:
            return f"{number[1]} {name} -"
        always = "" if not name or {"omitempty", "omitzero"} & set(options) else "+"
        pointer = "!" if type_.startswith("*") else ""
        text = self._type(path, type_.lstrip("*"))
        if text in ("t", "u"):  # null where there is no time, pointer or not
            pointer = ""
        return f"{number[1]} {name or '^'} {text}{pointer}{always}"

    def _type(self, path: str, type_: str) -> str:
        """Return the type of a field: see the head of the file."""
        if type_ in SCALARS:
            return SCALARS[type_]
        if type_.startswith("[]"):
            return f"{self._type(path, type_[2:])}*"
        if entry := re.fullmatch(r"map\[[\w.]+\](.+)", type_):
            value = self._type(path, entry[1])
            return f"{{@{value[:-1]}}}" if value.endswith("*") else f"{{{value}}}"
        if "." in type_:
            imported, _, name = type_.partition(".")
            return SCALARS.get(name) or self._type(package(path).imports[imported], name)
        if type_ in package(path).aliases:
            return self._type(path, package(path).aliases[type_])
        return self.add(path, type_)


@cache
def package(path: str) -> Package:
    """Return the types of a package of Kubernetes: the fields of all releases."""
    module, _, folder = path.removeprefix("k8s.io/").partition("/")
    files = [_module(f"k8s.io/{module}@{version}") / folder / "types.go" for version in VERSIONS]
    newest, *older = [parsed(file.read_text("utf-8")) for file in files if file.exists()]
    for release in older:
        for name, fields in release.structs.items():
            newer = newest.structs.setdefault(name, [])
            numbers = {number[1] for _, tags in newer if (number := _NUMBER.search(tags))}
            newer += [field for field in fields if (number := _NUMBER.search(field[1])) and number[1] not in numbers]
    return newest


@cache
def _module(name: str) -> Path:
    """Return the folder of a Go module, which Go downloads once."""
    command = ["go", "mod", "download", "-json", name]
    return Path(json.loads(subprocess.run(command, capture_output=True, text=True, check=True, cwd="/").stdout)["Dir"])


HEAD = f"""\
# The fields of Kubernetes' messages, written by `make golden` from the Go types of k8s.io/api {", ".join(VERSIONS)}.
# A message a line: `number name type`. Types are s (string), i (integer), b (boolean), y (bytes), q (quantity),
# t and u (times), o (integer or string), r (raw JSON), the name of a message, or - for what a server ignores. After the
# type, `*` is a list; `{{}}` around it is a map from strings, with `@` a map of lists. `!` marks a pointer, whose zero is a
# value; `+` a field that is written even when empty; `^` as a name a message whose fields stand in its parent. A name that
# messages of two groups have is that of the first; the other has the group before it.
"""


def text() -> str:
    """Return the text of the file."""
    table = Table()
    stored = [(kind.group.partition(".")[0] or "core", kind.version, kind.kind) for kind in builtin_kinds()]
    for group, version, kind in sorted([*stored, *NOT_STORED], key=lambda item: (item[0] != "core", item)):
        table.add(f"k8s.io/api/{group}/{version}", kind)
    return HEAD + "".join(f"{line}\n" for line in table.lines.values())


if __name__ == "__main__":
    if shutil.which("go"):
        FILE.write_text(text(), "utf-8")
    else:
        print(f"{FILE.name} is not written again: there is no go on PATH")
