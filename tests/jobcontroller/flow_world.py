"""A flow or a cron job with its jobs, for tests: plans are carried out on them as the controller would."""

from abc import ABC, abstractmethod
from datetime import UTC, datetime, timedelta
from typing import Any, Self

from volcanopy.api.batch import BatchJob
from volcanopy.api.cron import CronBatchJob
from volcanopy.api.flow import JobFlow, JobTemplate
from volcanopy.api.model import Json
from volcanopy.api.times import format_time
from volcanopy.jobcontroller.cron import CronEffect, CronPlan, UpdateCronStatus, reconcile_cron
from volcanopy.jobcontroller.flow_jobs import CommandJob, FlowEffect, FlowObserved, FlowPlan, PodProbe
from volcanopy.jobcontroller.flows import reconcile_flow
from volcanopy.jobcontroller.plan import CreateJob, DeleteJob, UpdateStatus

START = datetime(2026, 3, 2, 8, 0, tzinfo=UTC)


def job_spec(*tasks: str, replicas: int = 1) -> Json:
    """The spec of a job with tasks of these names."""
    pod = {"spec": {"containers": [{"name": "main", "image": "busybox", "env": [{"name": "A", "value": "1"}]}]}}
    return {"tasks": [{"name": name, "replicas": replicas, "template": pod} for name in tasks or ("main",)]}


class Jobs(ABC):
    """Jobs that are made, go from phase to phase, and are deleted."""

    def __init__(self) -> None:
        self.now = START
        self.jobs: dict[str, BatchJob] = {}
        self.born: list[str] = []
        self.commands: list[str] = []

    def pass_time(self, **duration: float) -> None:
        """Let time pass."""
        self.now += timedelta(**duration)

    def set(self, name: str, phase: str, message: str = "so it is", **status: Any) -> None:
        """A job comes to a phase."""
        state = {"phase": phase, "message": message, "lastTransitionTime": format_time(self.now)}
        raw = self.jobs[name].write() | {"status": {"state": state, **status}}
        self.jobs[name] = BatchJob.read(raw)

    def make(self, manifest: Json) -> None:
        """A job is made."""
        name = manifest["metadata"]["name"]
        assert name not in self.jobs, f"{name} is made twice"
        stamp = {"uid": f"uid-{len(self.born)}", "creationTimestamp": format_time(self.now)}
        self.jobs[name] = BatchJob.read({**manifest, "metadata": manifest["metadata"] | stamp}, unknown="forbid")
        self.born.append(name)

    def remove(self, name: str, uid: str) -> None:
        """A job is deleted."""
        if name in self.jobs and self.jobs[name].metadata.uid == uid:
            del self.jobs[name]

    @abstractmethod
    def look(self) -> FlowPlan | CronPlan:
        """What the controller would do now."""

    @abstractmethod
    def carry_out(self, effect: Any) -> None:
        """Carry out one effect of a plan."""

    def settle(self) -> Self:
        """Carry out plans until there is nothing to do."""
        for _ in range(20):
            plan = self.look()
            if not plan.effects:
                return self
            for effect in plan.effects:
                self.carry_out(effect)
        raise AssertionError(f"does not come to rest: {plan}")


class FlowWorld(Jobs):
    """One flow."""

    def __init__(self, *flows: Json, templates: dict[str, Json] | None = None, **spec: Any) -> None:
        super().__init__()
        metadata = {"name": "f", "namespace": "ns", "uid": "flow-uid", "creationTimestamp": format_time(START)}
        given = {"metadata": metadata, "spec": {"flows": list(flows), **spec}}
        self.flow = JobFlow.read(given, unknown="forbid")
        self.templates: dict[str, JobTemplate] = {}
        for name, of in (templates or {flow["name"]: job_spec() for flow in flows}).items():
            self.template(name, of)
        self.answers: dict[PodProbe, bool] = {}
        self.pods: dict[str, Any] = {}

    def template(self, name: str, spec: Json, **metadata: Any) -> None:
        """A template is made."""
        meta = {"name": name, "namespace": "ns", **metadata}
        self.templates[name] = JobTemplate.read({"metadata": meta, "spec": spec}, unknown="forbid")

    def look(self) -> FlowPlan:
        """What the controller would do now."""
        seen = FlowObserved(self.templates, dict(self.jobs), self.pods, self.answers)
        return reconcile_flow(self.flow, seen, self.now)

    def carry_out(self, effect: FlowEffect) -> None:
        """Carry out one effect of a plan."""
        match effect:
            case UpdateStatus():
                self.flow = JobFlow.read(self.flow.write() | {"status": effect.status})
            case CreateJob():
                self.make(effect.manifest)
            case DeleteJob():
                self.remove(effect.name, effect.uid)
            case CommandJob():
                self.commands.append(str(effect))
                self.set(effect.name, "Terminating")

    @property
    def phase(self) -> str:
        """The phase of the flow."""
        return str(self.flow.status.state.phase)

    @property
    def message(self) -> str:
        """Why the flow is in its phase."""
        return self.flow.status.state.message

    def job_message(self, name: str) -> str:
        """The status of one job."""
        return next(item.message for item in self.flow.status.job_status_list if item.name == name)


class CronWorld(Jobs):
    """One cron job."""

    def __init__(self, schedule: str, **spec: Any) -> None:
        super().__init__()
        metadata = {"name": "c", "namespace": "ns", "uid": "cron-uid", "creationTimestamp": format_time(START)}
        template = {"spec": job_spec(), "metadata": {"labels": {"team": "a"}, "annotations": {"note": "b"}}}
        given = {"metadata": metadata, "spec": {"schedule": schedule, "jobTemplate": template, **spec}}
        self.cron = CronBatchJob.read(given, unknown="forbid")
        self.events: list[str] = []

    def look(self) -> CronPlan:
        """What the controller would do now."""
        return reconcile_cron(self.cron, dict(self.jobs), self.now)

    def carry_out(self, effect: CronEffect) -> None:
        """Carry out one effect of a plan."""
        match effect:
            case UpdateCronStatus():
                self.cron = CronBatchJob.read(self.cron.write() | {"status": effect.status})
            case CreateJob():
                self.make(effect.manifest)
            case DeleteJob():
                self.remove(effect.name, effect.uid)
            case _:
                self.events.append(str(effect))

    def change(self, **spec: Any) -> None:
        """The user changes the spec."""
        raw = self.cron.write()
        self.cron = CronBatchJob.read(raw | {"spec": raw["spec"] | spec}, unknown="forbid")
