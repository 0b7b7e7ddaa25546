"""Finds retired words: `python -m hack.language [PATH ...]` prints each with its place and the term to use instead.

Read are module names, identifiers, docstrings, comments and string literals of the product, and the prose of documents,
charts and examples. `tests/test_language.py` runs the same over the whole repository. A legitimate use is listed in
`ALLOWED`, with the file it occurs in.
"""

import ast
import io
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent

PROSE: dict[str, str] = {
    r"(over)?promis(e|es|ed|ing)": "reserved, reservation, guaranteed",
    r"beneficiar(y|ies)|gainers?|takers?|askers?|avengers?": "preemptor, reclaimer",
    r"prey|consent": "candidates, evictable",
    r"turned away|homeless": "unschedulable, pending, waiting",
    r"denials?|denied|den(y|ies)|refus(e|es|ed|al|als|ing)": "rejected by, filtered by, rejection",
    r"would start with": "unblocked by",
    r"place in (the|its|their) (line|queue)|the line of its queue": "position in queue",
    r"wants?|wanted|wanting": "requested, requests",
    r"ask(s|ed|ing)? for": "requests, requested",
    r"too much": "exceeds",
    r"beyond (its|their|the) (share|due|limits?)": "exceeds",
    r"deserves?|owe[sd]?|entitled": "deserved, fair share",
    r"deserved shares?": "fair share (computed), deserved (the field)",
    r"(is|are|be|was) due to (it|them|the queue|a queue)|dues": "deserved",
    r"(may|can|could) hold|holds|queue \S+ held": "allocated, capability, limit, has",
    r"kept for|keeps? room|room": "reserved; free resources, capacity",
    r"alike|likeness|lone": "of equal shape",
    r"tell|tells|told|telling": "message, reports, states",
    r"said|says|saying|say": "message, states, specifies",
    r"words": "message, reason, wording",
    r"wish(es|ed)?": "command, preferred",
    r"whoever|nobody|somebody|anybody": "name the component or the user",
    r"in vain": "without effect",
    r"second look|looks? again": "retry, repack",
    r"picture": "snapshot, cluster state",
    r"deaf|unheard|heard|hears?|aloud": "stale watch, not synced",
    r"patience": "limit, timeout",
    r"reckon(s|ed|ing)?": "compute",
    r"in turn": "in order, FIFO",
    r"ahead": "before, blocked by",
    r"vessels?|shelf|shelves|census|counsel|abreast|stock|dice|lanes?": "the noun of the thing",
    r"(must|shall|may|has to|have to|had to|make|makes|made) leave|who leaves?|leave (their|its|the) nodes?": "evict",
    r"serve[sd]? in turn": "FIFO",
    r"in the house|house rules|rules of the house": "conventions",
    r"floors?": "layers",
}
"""Patterns of prose (whole words, any case) with the terms to use instead."""

NAMES: dict[str, str] = {
    "one|ones|thing|things|found": "the noun of the thing, such as pod, node, match",
    "said|says|say|told|tell|tells|telling|tellings|asides|words": "message, reason, report",
    "taker|takers|gainer|asker|beneficiary|avenger": "preemptor, reclaimer",
    "denial|denied|deny|refuse|refused|refusal|refusals|refuses": "rejection, rejected",
    "likeness|alike|lone": "shape, equivalence",
    "wish|wishes|wanted|wants|want": "command, requested",
    "promise|promised|promises|overpromise|overpromised": "reserved, reservation",
    "dues|owed|entitled": "fair share",
    "counsel|abreast|whynot|homeless|deaf|unheard|sought|lanes|lane|census|shelves|shelf|stock": "the noun of the thing",
    "patience": "limit, timeout, budget",
}
"""Parts of identifiers (between underscores or capitals) with the terms to use instead."""

ALLOWED: dict[str, tuple[str, ...]] = {
    # file (or "*"): the lower-case texts that are legitimate there, as they occur around the word
    "*": (
        "connection refused",
        "econnrefused",
        "refused to connect",
        "not_found",
        "notfound",
        "not found",
        "denied the request",
        # upstream's messages of a ValidatingAdmissionPolicy and of an exec without permission
        "denied request",
        "permission denied",
    ),
    # the action of a ValidatingAdmissionPolicyBinding
    "packages/apiserver/embedded_apiserver/webhooks/admission_policies.py": ("deny",),
    "packages/apiserver/embedded_apiserver/kinds/admission_configuration.py": ("deny",),
    "packages/local/volcanopy_local/process/launcher.py": ("deny",),
    # a field of Kubernetes' access reviews
    "packages/apiserver/embedded_apiserver/wire/protobuf_fields.txt": ("4 denied b",),
    **{
        f"charts/volcanopy/crds/{crd}.yaml": (
            "you want to",
            "hostalias holds",
            "securitycontext holds",
            "field holds extra command",
        )
        for crd in (
            "batchjobs.batch.volcanopy.io",
            "cronbatchjobs.batch.volcanopy.io",
            "jobtemplates.flow.volcanopy.io",
        )
    },  # Kubernetes' own descriptions of pod templates
    "charts/volcanopy/templates/admission/rbac.yaml": ("validationactions: [deny]",),
    "charts/volcanopy/templates/agent/rbac.yaml": ("validationactions: [deny]",),
    "charts/volcanopy/templates/controller/restrictions.yaml": ("validationactions: [deny]",),
    "charts/volcanopy/templates/queues-only.yaml": ("validationactions: [deny]",),
    "docs/metrics.md": ("warned, denied, error",),
    "volcanopy/kube/metrics/registry.py": ("warned, denied, error",),
    "volcanopy/services/admission/review_metrics.py": ("denied",),
    "volcanopy/services/scheduler/dump.py": (".world.json",),
}

IN_TESTS_ONLY = re.compile(r"\bworlds?\b", re.IGNORECASE)
_PROSE = re.compile(r"\b(" + "|".join(f"(?:{pattern})" for pattern in PROSE) + r")\b", re.IGNORECASE)
_NAMES = re.compile(r"^(" + "|".join(NAMES) + r")$")
_PARTS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_DOCUMENTS = (".md", ".yaml", ".yml", ".tpl", ".txt", ".toml", "dashboards/volcanopy.json")
SELF = ("hack/language.py", "tests/test_language.py")


BARE = frozenset(
    [
        "added",
        "asked",
        "begun",
        "changed",
        "chosen",
        "counted",
        "drawn",
        "each",
        "found",
        "given",
        "gone",
        "held",
        "kept",
        "known",
        "left",
        "listed",
        "lost",
        "made",
        "mine",
        "named",
        "needed",
        "other",
        "others",
        "ours",
        "own",
        "placed",
        "removed",
        "said",
        "seen",
        "sent",
        "shown",
        "stood",
        "stopped",
        "taken",
        "theirs",
        "told",
        "used",
        "written",
    ]
)
"""Participles, adjectives and pronouns that are no name of a variable or parameter: use the noun of what it is."""


def bare_names(source: str) -> list[str]:
    """Return the variables and parameters of Python code whose name is only a participle, adjective or pronoun."""
    nodes = ast.walk(ast.parse(source))
    names = (
        node.arg if isinstance(node, ast.arg) else node.id
        for node in nodes
        if isinstance(node, ast.arg) or (isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store))
    )
    return [name for name in names if name in BARE]


class Hit(NamedTuple):
    """A retired word: where it is, what it is, and the text around it."""

    path: str
    line: int
    word: str
    use: str
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.word!r}: use {self.use}: {self.text}"


def prose(path: str, line: int, text: str) -> Iterator[Hit]:
    """Yield the retired words of a piece of prose."""
    for offset, row in enumerate(text.split("\n")):
        for match in _PROSE.finditer(row):
            around = row[max(match.start() - 40, 0) : match.end() + 40].strip()
            if not _is_allowed(path, around):
                yield Hit(path, line + offset, match[0], _instead(match[0], PROSE), around)
        if path.startswith(("volcanopy/", "packages/")) and not path.startswith("packages/testing/volcanopy_testing/"):
            for match in IN_TESTS_ONLY.finditer(row):
                around = row[max(match.start() - 40, 0) : match.end() + 40].strip()
                if not _is_allowed(path, around):
                    yield Hit(path, line + offset, match[0], "cluster, cluster state, snapshot", around)


def name(path: str, line: int, identifier: str) -> Iterator[Hit]:
    """Yield the retired parts of an identifier or module name."""
    for part in _PARTS.findall(identifier):
        if _NAMES.match(part.lower()) and not _is_allowed(path, identifier.lower()):
            yield Hit(path, line, part, _instead(part.lower(), NAMES), identifier)


def python(path: str, source: str) -> Iterator[Hit]:
    """Yield the retired words of a module: its name, its identifiers, strings, docstrings and comments."""
    yield from name(path, 1, Path(path).stem)
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield from name(path, node.lineno, node.name)
        elif isinstance(node, ast.arg):
            yield from name(path, node.lineno, node.arg)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield from name(path, node.lineno, node.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield from name(path, node.lineno, node.attr)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from prose(path, node.lineno, node.value)
    comments = [row.partition("#")[2] for row in source.splitlines()]
    if not any(_PROSE.search(row) or IN_TESTS_ONLY.search(row) for row in comments):
        return
    # What follows the character may be a part of a string: only tokens tell.
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield from prose(path, token.start[0], token.string)


def hits(paths: list[str]) -> list[Hit]:
    """Return every retired word in these files, given relative to the repository."""
    result: list[Hit] = []
    for path in paths:
        if path in SELF or "tests" in Path(path).parts:
            continue
        text = (ROOT / path).read_text(encoding="utf-8", errors="ignore")
        if path.endswith(".py"):
            result += python(path, text)
        elif path.endswith(_DOCUMENTS):
            result += prose(path, 1, text)
    return sorted(set(result))


def files(prefixes: list[str]) -> list[str]:
    """Return the files of the repository below these folders (all without any)."""
    listed = subprocess.check_output(["git", "ls-files"], cwd=ROOT, text=True).split()
    return [path for path in listed if not prefixes or path.startswith(tuple(prefixes))]


def _instead(word: str, table: dict[str, str]) -> str:
    return next(use for pattern, use in table.items() if re.fullmatch(pattern, word, re.IGNORECASE))


def _is_allowed(path: str, around: str) -> bool:
    lowered = around.lower()
    return any(text in lowered for key in ("*", path) for text in ALLOWED.get(key, ()))


def main() -> int:
    """Print the retired words below the given folders; 1 if there are any."""
    listed = hits(files(sys.argv[1:]))
    for hit in listed:
        print(hit)
    print(f"{len(listed)} retired words", file=sys.stderr)
    return 1 if listed else 0


if __name__ == "__main__":
    raise SystemExit(main())
