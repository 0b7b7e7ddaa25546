"""``volcanopy plan``: the decisions of the scheduler on objects from files, and what would let waiting jobs start."""

import gc
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import msgspec

from volcanopy.api import names
from volcanopy.api.config_file import ConfigError
from volcanopy.api.decoding import convert
from volcanopy.cli import whatif
from volcanopy.cli.manifests import Manifest, read
from volcanopy.client import whatif_engine
from volcanopy.client.errors import CommandError
from volcanopy.client.files import text_of
from volcanopy.client.progress import progress
from volcanopy.installed.entry_points import ThirdPartyError
from volcanopy.installed.scheduler_plugins import registry
from volcanopy.scheduler.core import schedule
from volcanopy.scheduler.model.plan import Bind, Evict, Nominate, Plan, SetPodGroup, document
from volcanopy.scheduler.policy.config import SchedulerConfig, default, parse
from volcanopy.scheduler.policy.registry import Registry
from volcanopy.scheduler.policy.unknown_measures import unknown_measures
from volcanopy.services.scheduler import replay
from volcanopy.whatif import answer as answers
from volcanopy.whatif import kinds
from volcanopy.whatif.answer import Answer
from volcanopy.whatif.engine import Engine
from volcanopy.whatif.load import Loaded, add_default_queue


@dataclass(frozen=True)
class PlanOptions:
    """Options of the command."""

    config: Path | None = None
    now: str | None = None
    as_json: bool = False
    seconds: float = whatif_engine.SECONDS


class _World(NamedTuple):
    """The manifests of a question with its time and configuration."""

    loaded: Loaded
    engine: Engine
    plan: Plan


def plan_with(files: list[str], options: PlanOptions) -> None:
    """Print the plan for the objects in files.

    Moment and configuration are those of a snapshot among the files, unless options specify others. Raises CommandError, also
    after the plan if admission rejects new objects.
    """
    with _without_collection():
        with progress("reading manifests"):
            manifests = read(files)
        try:
            plugins = registry()
            with progress(f"scheduling cycles of {len(manifests)} objects"):
                world = _world(manifests, options, plugins)
        except ThirdPartyError as error:
            raise CommandError(str(error)) from None
    limits = whatif_engine.limits(world.engine, options.seconds, estimates=True)
    with progress("searching for changes that let waiting jobs start"):
        answer = answers.answer(world.engine, limits)
    _show(world, answer, options)
    whatif.check_accepted(world.loaded)


@contextmanager
def _without_collection() -> Iterator[None]:
    """Disable garbage collection, which would scan growing tables of objects again and again."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


def _show(world: _World, answer: Answer, options: PlanOptions) -> None:
    if options.as_json:
        body = document(world.plan)
        if jobs := whatif.document(answer, world.loaded):
            body["jobs"] = jobs
        print(json.dumps(body, indent=2))
        return
    lines = [str(world.plan)] if world.plan.effects else []
    lines += whatif.lines(answer, world.loaded, world.engine)
    if lines:
        print("\n".join(lines))
    else:
        whatif.note_line("nothing to schedule")


def _world(manifests: Sequence[Manifest], options: PlanOptions, plugins: Registry) -> _World:
    """Return the cluster of manifests, and the plan of its next cycle."""
    cycle = next((_cycle(manifest) for manifest in manifests if _is_cycle(manifest)), None)
    chosen = _configuration(options.config, cycle, plugins)
    schedulers = cycle.scheduler_names if cycle is not None else ()
    queue = (cycle.default_queue if cycle is not None else "") or names.DEFAULT_QUEUE
    objects = [manifest for manifest in manifests if not _is_cycle(manifest)]
    loaded = whatif.loaded(objects, schedulers or (names.SCHEDULER,), queue)
    state = loaded.cluster.state
    if cycle is not None:
        replay.apply_cycle(state, cycle)
    elif any((group.spec.queue or queue) == queue for group in loaded.cluster.of_kind("PodGroup").values()):
        add_default_queue(loaded)
    moment = cycle.now if cycle is not None and options.now is None else _moment(options.now)
    if "extender" in chosen.plugins:
        whatif.note_line("the HTTP extender is not asked: its verdicts are missing in this plan")
    taken = state.snapshot(moment, "plan")
    for sentence in unknown_measures(taken, chosen).values():
        whatif.note_line(sentence)
    result = schedule(taken, chosen, plugins)
    if cycle is not None:
        binding = {key: bind.node for key, bind in cycle.binding.items()}
        loaded.cluster.settle_assumed(binding, cycle.evicting, moment)
        loaded.cluster.commit()
    whatif.submitted(loaded, moment)
    engine = whatif_engine.engine(loaded, chosen, moment, plugins, cycle.previous if cycle is not None else None)
    if loaded.new:
        result = _all_cycles(engine)
    return _World(loaded, engine, result)


def _all_cycles(engine: Engine) -> Plan:
    """Return the effects of all cycles until nothing changes: explanations and queue statuses of the last one only."""
    with engine.cluster.trial():
        plans = engine.run(whatif_engine.limits(engine).run, frozenset()).plans
    moves = (
        effect
        for made in plans[:-1]
        for effect in made.of(Bind, Evict, Nominate, SetPodGroup)
        if not isinstance(effect, SetPodGroup) or effect.phase == "Inqueue"
    )
    return Plan((*moves, *(plans[-1].effects if plans else ())))


# Input


def _is_cycle(manifest: Manifest) -> bool:
    return (manifest.group, manifest.kind) == (replay.GROUP, replay.KIND)


def _cycle(manifest: Manifest) -> replay.SchedulingCycle:
    try:
        return convert(manifest.body, replay.SchedulingCycle)
    except msgspec.ValidationError as error:
        raise CommandError(f"{manifest.place}: {kinds.field_error(str(error))}") from None


def _configuration(config: Path | None, cycle: replay.SchedulingCycle | None, plugins: Registry) -> SchedulerConfig:
    """Return the configuration of the option, or of the snapshot, or the default. Raises CommandError."""
    if config is not None:
        text, source = text_of(config, "--config"), str(config)
    elif cycle is not None and cycle.config:
        text, source = cycle.config, "scheduler configuration of the snapshot (replace it with --config FILE)"
    else:
        return default(plugins)
    try:
        parsed = parse(text, plugins)
    except ConfigError as error:
        raise CommandError(f"{source}: {error}") from None
    for warning in parsed.warnings:
        whatif.note_line(f"warning: {source}: {warning}")
    return parsed


def _moment(now: str | None) -> datetime:
    if now is None:
        return datetime.now(UTC)
    try:
        moment = datetime.fromisoformat(now)
    except ValueError:
        raise CommandError(f"--now: {now!r} is not an RFC 3339 time such as 2030-01-31T12:00:00Z", 2) from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
