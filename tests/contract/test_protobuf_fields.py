"""The generated field numbers of Kubernetes' messages: from Go source, and those of the published modules."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from hack import protobuffields

SOURCES = {
    "k8s.io/api/core/v1": """
import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Phase is a text. type Other int
type Phase string
type Amounts map[Phase]resource.Quantity
type Texts []string

// A pod.
type Pod struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`
	// Source is inline: `json:"no"`
	Source `json:",inline" protobuf:"bytes,2,opt,name=source"`
	Phase Phase `json:"phase" protobuf:"bytes,3,opt,name=phase,casttype=Phase"`
	Retries *int32 `json:"retries,omitempty" protobuf:"varint,4,opt,name=retries"`
	Amounts Amounts `json:"amounts,omitempty" protobuf:"bytes,5,rep,name=amounts,castkey=Phase"`
	Started *metav1.Time `json:"started,omitempty" protobuf:"bytes,6,opt,name=started"`
	Extra map[string]Texts `json:"extra,omitempty" protobuf:"bytes,7,rep,name=extra"`
	Sources []Source `json:"sources,omitzero" protobuf:"bytes,8,rep,name=sources"`
	Secret map[string][]byte `json:"secret,omitempty" protobuf:"bytes,9,rep,name=secret"`
}

type Source struct {
	Path string `json:"path" protobuf:"bytes,1,opt,name=path"`
}
""",
    "k8s.io/api/storage/v1": """
type Source struct {
	Volume bool `json:"volume,omitempty" protobuf:"varint,1,opt,name=volume"`
}
""",
    "k8s.io/apimachinery/pkg/apis/meta/v1": """
type ObjectMeta struct {
	Name string `json:"name,omitempty" protobuf:"bytes,1,opt,name=name"`
	ManagedFields []ManagedFieldsEntry `json:"managedFields,omitempty" protobuf:"bytes,17,rep,name=managedFields"`
}
""",
}


def test_a_struct_becomes_a_line_with_the_numbers_of_its_tags(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protobuffields, "package", lambda path: protobuffields.parsed(SOURCES[path]))
    table = protobuffields.Table()
    assert (table.add("k8s.io/api/core/v1", "Pod"), table.add("k8s.io/api/storage/v1", "Source")) == (
        "Pod",
        "storage.Source",
    )
    assert list(table.lines.values()) == [
        "Pod: 1 metadata ObjectMeta, 2 ^ Source, 3 phase s+, 4 retries i!, 5 amounts {q}, 6 started t, 7 extra {@s},"
        " 8 sources Source*, 9 secret {y}",
        "ObjectMeta: 1 name s, 17 managedFields -",
        "Source: 1 path s+",
        "storage.Source: 1 volume b",
    ]


def test_an_older_release_adds_the_fields_that_a_newer_one_lacks(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    newest, *older = protobuffields.VERSIONS
    releases = {newest: "int64", older[-1]: "string"}
    for version, type_ in releases.items():
        (tmp_path / f"k8s.io/api@{version}" / "core/v1").mkdir(parents=True)
        field = f'\tValue {type_} `json:"{version}" protobuf:"bytes,1,opt"`\n'
        alpha = '\tAlpha bool `json:"alpha" protobuf:"varint,2,opt"`\n' if version in older else ""
        source = f"type Thing struct {{\n{field}{alpha}}}\n"
        (tmp_path / f"k8s.io/api@{version}" / "core/v1/types.go").write_text(source)
    monkeypatch.setattr(protobuffields, "_module", lambda name: tmp_path / name)
    table = protobuffields.Table()
    protobuffields.package.cache_clear()
    table.add("k8s.io/api/core/v1", "Thing")
    protobuffields.package.cache_clear()
    assert list(table.lines.values()) == [f"Thing: 1 {newest} i+, 2 alpha b+"]


def _cache() -> Path | None:
    if not shutil.which("go"):
        return None
    command = ["go", "env", "GOMODCACHE"]
    return Path(subprocess.run(command, capture_output=True, text=True, check=True, cwd="/").stdout.strip())


def test_the_table_is_that_of_the_published_modules() -> None:
    cache = _cache()
    modules = [f"k8s.io/{name}@{version}" for name in ("api", "apimachinery") for version in protobuffields.VERSIONS]
    if cache is None or not all((cache / module).is_dir() for module in modules):
        pytest.skip(f"needs Go and {', '.join(modules)} in its cache: `make golden` downloads them")
    assert protobuffields.FILE.read_text("utf-8") == protobuffields.text(), "call `make golden`"


def test_the_numbers_of_openapi_documents_are_the_published_ones() -> None:
    modules = sorted(
        (_cache() or Path("/nowhere")).glob("github.com/google/gnostic-models@*/openapiv2/OpenAPIv2.proto")
    )
    if not modules:
        pytest.skip("needs Go and github.com/google/gnostic-models in its cache: `make controlplane` downloads it")
    published = modules[-1].read_text("utf-8")
    for message, numbers in (
        ("Document", {"swagger": 1, "info": 2, "definitions": 9}),
        ("Info", {"title": 1, "version": 2}),
        ("Definitions", {"additional_properties": 1}),
        ("NamedSchema", {"name": 1, "value": 2}),
        ("Schema", {"type": 22, "vendor_extension": 31}),
        ("TypeItem", {"value": 1}),
        ("NamedAny", {"name": 1, "value": 2}),
        ("Any", {"yaml": 2}),
    ):
        body = published.partition(f"message {message} {{")[2].partition("\n}")[0]
        declared = {name: int(number) for name, number in re.findall(r"(\w+) = (\d+);", body)}
        assert {name: declared.get(name) for name in numbers} == numbers, message
