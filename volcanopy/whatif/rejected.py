"""Remedies of jobs that admission rejects because their queue does not exist."""

from volcanopy.whatif import kinds
from volcanopy.whatif.admission import admit
from volcanopy.whatif.changes import Change
from volcanopy.whatif.engine import Budget, BudgetEndedError, Engine
from volcanopy.whatif.load import Loaded, type_problems
from volcanopy.whatif.remedies.queues import new_queue
from volcanopy.whatif.search import Remedy


def rejected_remedies(engine: Engine, loaded: Loaded, budget: Budget) -> dict[tuple[str, str], Remedy]:
    """Return for rejected jobs, by kind and key, the creation of their queue, if they are admitted and start with it."""
    remedies: dict[tuple[str, str], Remedy] = {}
    for key in loaded.rejected:
        body = loaded.new.get(key, {})
        spec = body.get("spec")
        name = str(spec.get("queue") or "") if isinstance(spec, dict) else ""
        if key[0] != "BatchJob" or not name or name in loaded.cluster.state.queues or type_problems(body):
            continue
        try:
            started = _starts_with(engine, body, name, budget)
        except BudgetEndedError:
            break
        if started:
            text = f'create queue "{name}"'
            remedies[key] = Remedy("create", text, Change((new_queue(name),)), (text,))
    return remedies


def _starts_with(engine: Engine, body: dict[str, object], queue: str, budget: Budget) -> bool:
    """Return whether a job is admitted and starts after the creation of its queue."""
    cluster = engine.cluster
    with cluster.trial():
        cluster.put_manifest(new_queue(queue))
        result = admit(cluster, body, registry=engine.job_registry)
        if result.problems:
            return False
        job = kinds.created(result.body, engine.now)
        cluster.put_workload(job)
        metadata = job["metadata"]
        group = f"{metadata['namespace']}/{metadata['name']}-{metadata['uid']}"
        return group in engine.run(budget, frozenset({group}), group).started
