"""Budget of YAML texts: depth of nesting, and number of values with all aliases expanded.

The parser of PyYAML builds objects recursively, and a few lines with aliases become millions of values. Both are found in the
events of a text, before an object is built.
"""

import yaml

MAX_DEPTH = 200
MAX_VALUES = 2_000_000
_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_STARTS = (yaml.SequenceStartEvent, yaml.MappingStartEvent)
_ENDS = (yaml.SequenceEndEvent, yaml.MappingEndEvent)


class YamlBudgetError(yaml.MarkedYAMLError):
    """The text is nested too deeply or has too many values."""

    def __init__(self, problem: str, event: yaml.Event) -> None:
        super().__init__(problem=problem)
        self.problem_mark = event.start_mark  # type: ignore[assignment]  # of libyaml


def check_budget(text: str | bytes) -> None:
    """Raise YamlBudgetError, or another YAMLError if the text is not valid."""
    open_nodes: list[tuple[str | None, int]] = []
    sizes: dict[str, int] = {}
    total = 0
    for event in yaml.parse(text, Loader=_Loader):
        if isinstance(event, yaml.DocumentStartEvent):
            sizes.clear()
        elif isinstance(event, _STARTS):
            open_nodes.append((event.anchor, total))
            total += 1
        elif isinstance(event, _ENDS):
            anchor, before = open_nodes.pop()
            if anchor:
                sizes[anchor] = total - before
        elif isinstance(event, yaml.AliasEvent):
            total += sizes.get(event.anchor or "", 1)
        elif isinstance(event, yaml.ScalarEvent):
            total += 1
            if event.anchor:
                sizes[event.anchor] = 1
        if len(open_nodes) > MAX_DEPTH:
            raise YamlBudgetError(f"more than {MAX_DEPTH} levels of nesting", event)
        if total > MAX_VALUES:
            raise YamlBudgetError(f"more than {MAX_VALUES} values, with aliases expanded", event)
