"""``volcanopy top``: the cluster, its queues, the jobs that wait and run, and the nodes, live in a terminal.

It shows the documents of the web page.
"""

import asyncio
import logging
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import datetime

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from volcanopy.api import quantity
from volcanopy.api.model import Json
from volcanopy.cli import logs
from volcanopy.cli.framework import tables
from volcanopy.cli.ui import documents
from volcanopy.cli.ui.cluster_view import ClusterView
from volcanopy.client.durations import current_time
from volcanopy.client.errors import CommandError
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.printable import printable

_WIDE = 120
"""Characters of a line from which all columns are shown."""
_LONGEST_NAME = 40
"""Characters of a job's name in a narrow terminal."""
_FIXED = 12
"""Lines besides the rows of queues, jobs and nodes."""
_JOB_COLUMNS = ("NAME", "PHASE", "READY", "TOTAL", "QUEUE", "USER", "AGE", "RUN TIME", "POSITION", "REASON")
_NARROW_JOB_COLUMNS = ("NAME", "PHASE", "QUEUE", "AGE", "REASON")
_PIPE = 1000
"""Characters of a line that is not cut, in a pipe."""
_SECONDS = 1.0
"""Between two pictures."""
_AGES = 5.0
"""Seconds after which the screen is drawn anew without a change, because ages grow."""


async def show(client: Client, namespace: str | None, resource: str, *, once: bool) -> None:
    """Show the cluster until Ctrl-C; once if asked, or where the output is no terminal."""
    logs.configure(level=logging.ERROR)  # problems of watches are shown below the nodes
    view = ClusterView(client, namespace, current_time)
    console = tables.console()
    running = asyncio.create_task(view.run())
    try:
        await asyncio.wait((running, asyncio.create_task(view.started())), return_when=asyncio.FIRST_COMPLETED)
        if running.done():
            running.result()
        _check_resource(view, resource)
        if once or not sys.stdout.isatty():
            console = console if sys.stdout.isatty() else tables.console(_PIPE)
            with console.capture() as captured:
                console.print(picture(view, resource, current_time(), console))
            print(*map(str.rstrip, captured.get().splitlines()), sep="\n")
            return
        with Live(console=console, auto_refresh=False, screen=True) as live:
            while True:
                revision = view.revision
                live.update(picture(view, resource, current_time(), console), refresh=True)
                await asyncio.sleep(_SECONDS)
                with suppress(TimeoutError):
                    await asyncio.wait_for(view.change_after(revision), _AGES)
    finally:
        running.cancel()
        await asyncio.wait((running,))


def _check_resource(view: ClusterView, resource: str) -> None:
    """Raise CommandError for a resource that neither nodes nor queues have, where both are known."""
    names = [row["name"] for row in documents.overview(view, current_time())["resources"]]
    names = documents.ordered([*names, *documents.queues(view, "", history=False)["resources"]])
    if resource and resource not in names and not view.unknown:
        raise CommandError(f"--resource {resource}: the cluster does not have it: use {' or '.join(names)}", 2)


def picture(view: ClusterView, resource: str, now: datetime, console: Console) -> RenderableType:
    """Return what is shown: the rows fit the height of a terminal, waiting jobs first."""
    overview = documents.overview(view, now)
    queues = documents.queues(view, resource, history=False)
    jobs = documents.jobs(view, {}, now)
    rows = max(3, (console.height if console.is_terminal else 1000) - _FIXED - len(overview["resources"]))
    is_wide = console.width >= _WIDE
    bar = 20 if is_wide else 10
    parts: list[RenderableType] = [_counts(overview), _resources(overview, bar), _queues(queues, rows // 3, bar)]
    parts.append(_jobs(jobs, rows // 3, is_wide=is_wide) if jobs["total"] else Text("no jobs"))
    parts.append(_nodes(documents.cluster_map(view), resource or queues["resource"], rows // 3, bar))
    problems, forbidden = view.problems()
    return Group(*parts, *(Text(printable(text), style="red") for text in problems), Text(forbidden, style="dim"))


def _counts(overview: Json) -> Text:
    phases = ", ".join(f"{count} {phase}" for phase, count in sorted(overview["jobs"].items())) or "none"
    counts = (quantity.counted(overview[f"{noun}s"], noun) for noun in ("node", "pod"))
    return Text(f"{', '.join(counts)}, jobs: {phases}", style="bold")


def _resources(overview: Json, bar: int) -> Table:
    table = _table("", ("RESOURCE", "", "ALLOCATED"))
    for entry in overview["resources"]:
        allocated = entry["allocated"] / entry["allocatable"] if entry["allocatable"] else 0.0
        text = f"{entry['allocatedText']} of {entry['allocatableText']}, {allocated:.0%}"
        table.add_row(entry["name"], _bar(allocated, bar), text)
    return table


def _queues(document: Json, most: int, bar: int) -> Table:
    resource, amounts = document["resource"], document["amounts"]
    titles = ("QUEUE", resource.upper(), "ALLOCATED", "FAIR SHARE", "CAPABILITY", "WAITING", "STATE")
    table = _table("Queues", titles)
    entries = list(_walk(document["tree"]["queues"], 0))
    for queue, depth in entries[:most]:
        queue_amounts = amounts[queue["name"]]
        share = queue_amounts["fairShare"] or queue_amounts["capability"] or 0
        texts = [
            quantity.shown(resource, queue_amounts[kind]) if queue_amounts[kind] else "-"
            for kind in ("allocated", "fairShare", "capability", "waiting")
        ]
        name = f"{'  ' * depth}{queue['name']}"
        table.add_row(name, _bar(queue_amounts["allocated"] / share if share else 0.0, bar), *texts, queue["state"])
    return _with_rest(table, len(entries) - most)


def _walk(queues: Iterable[Json], depth: int) -> Iterable[tuple[Json, int]]:
    for queue in queues:
        yield queue, depth
        yield from _walk(queue.get("children") or (), depth + 1)


def _jobs(document: Json, most: int, *, is_wide: bool) -> Table:
    """Return the jobs, with the columns for which there is space; the reason has what the others leave."""
    titles = _JOB_COLUMNS if is_wide else _NARROW_JOB_COLUMNS
    places = [document["headings"].index(title) for title in titles]
    table = _table("Jobs", titles)
    table.expand, table.columns[-1].ratio = True, 1
    rows = list(zip(document["rows"], document["keys"], strict=True))[:most]
    table.columns[0].max_width = None if is_wide else _LONGEST_NAME
    for row, key in rows:
        cells = [Text(printable(row[place])) for place in places]
        cells[0] = Text(printable(key))
        cells[1].stylize(tables.phase_style(row[places[1]]))
        table.add_row(*cells)
    return _with_rest(table, document["total"] - most)


def _nodes(document: Json, resource: str, most: int, bar: int) -> Table:
    """The nodes with the most allocated first."""
    place = document["resources"].index(resource) if resource in document["resources"] else 0
    table = _table("Nodes", ("NODE", resource.upper(), "ALLOCATED", "PODS", "STATE"))
    entries = []
    for name, _, state, allocatable, uses, _ in document["nodes"]:
        allocated = sum(amounts[place] for _, reserved, amounts in uses if not reserved)
        total = allocatable[place] if allocatable else 0
        entries.append((allocated / total if total else 0.0, name, state, allocated, total, len(uses)))
    entries.sort(key=lambda entry: (-entry[0], entry[1]))
    for part, name, state, allocated, total, pods in entries[:most]:
        amounts = f"{quantity.shown(resource, allocated)} of {quantity.shown(resource, total)}"
        table.add_row(name, _bar(part, bar), amounts, str(pods), state)
    return _with_rest(table, len(entries) - most)


def _table(title: str, columns: Sequence[str]) -> Table:
    table = Table(box=None, title=title or None, title_justify="left", title_style="bold", padding=(0, 2, 0, 0))
    for column in columns:
        table.add_column(column, no_wrap=True, header_style="dim", overflow="ellipsis")
    return table


def _with_rest(table: Table, rest: int) -> Table:
    if rest > 0:
        table.add_row(Text(f"and {rest} more", style="dim"))
    return table


def _bar(part: float, length: int) -> Text:
    """Return a bar of so many characters; what exceeds the whole, such as borrowed amounts, is marked."""
    filled = round(min(1.0, part) * length)
    text = Text("█" * filled, style="green" if part <= 1 else "yellow")
    return text.append("░" * (length - filled), style="dim")
