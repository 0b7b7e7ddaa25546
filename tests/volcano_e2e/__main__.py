"""Build Volcano's end-to-end suites unchanged and run them: `VOLCANO_SOURCE=folder python -m tests.volcano_e2e [suite ...]`.

Prints for each suite how many specs passed, failed and were skipped, and the reason of each exception. Exits with 1 if a
spec failed that is not among the known exceptions. Without Volcano's source, Go or kube-apiserver it prints why and exits
with 0; with CI set and VOLCANO_SOURCE given, that is a failure instead.
"""

import argparse
import asyncio
import logging
import os
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import structlog

from hack.controlplane import assets
from hack.gobuild import BuildError
from tests.controlplane.plane import ControlPlane
from tests.volcano_e2e import world
from tests.volcano_e2e.building import SOURCE, Programs, Variant, programs
from tests.volcano_e2e.ginkgo import specs_of
from tests.volcano_e2e.report import Result, Spec, with_repeated

SUITES = (
    *("admission", "schedulingaction", "jobp", "jobseq", "vcctl", "cronjob", "schedulingbase", "hypernode"),
    *("gangevict", "schedulinggates", "dra", "stress"),
)
VARIANTS: Mapping[str, Variant] = {"dra": "no-kubelet"}
"""Suites that do not run as they are: each spec installs a device driver, which registers with a kubelet."""
FLAGS = {
    "schedulingbase": ["--skip=\\[sig-.*\\]|Volume Binding Test"],
    "dra": ["--focus=DRA (Quota )?E2E Test", "--procs=4"],
    "jobp": ["--procs=4"],
    "admission": ["--procs=6"],
    "jobseq": ["--procs=3"],
    "cronjob": ["--procs=3"],
}
"""Flags of Volcano's script hack/run-e2e-kind.sh for its suites; those whose specs have objects of their own run several at a
time, where the script has that for jobp alone. The tests of volume binding are left out as well: they run
commands in privileged containers on the nodes."""
KWOK_NODES = {"hypernode": 8, "gangevict": 4}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the suites and print the table."""
    arguments = _parser().parse_args(argv)
    try:
        built = programs()
        if assets() is None:
            raise BuildError("the real kube-apiserver is not built: run `python -m hack.controlplane`")
    except BuildError as error:
        print(f"volcano-e2e: skipped: {error}")
        return int(bool(os.environ.get("CI") and os.environ.get(SOURCE)))
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    folder = arguments.folder or Path(tempfile.mkdtemp(prefix="volcano-e2e-"))
    folder.mkdir(parents=True, exist_ok=True)
    results = []
    for suite in arguments.suites or SUITES:
        result = run(suite, built, folder, arguments.focus, arguments.timeout)
        print("\n".join(result.lines()), flush=True)
        results.append(result)
    passed, failed = sum(result.passed for result in results), sum(len(result.failed) for result in results)
    print(f"together: {passed} of {passed + failed} specs passed; logs and reports in {folder}")
    return int(any(result.unexplained for result in results))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.volcano_e2e", description=__doc__.partition("\n")[0])
    parser.add_argument("suites", nargs="*", choices=[*SUITES, []], metavar="suite", help=f"one of {', '.join(SUITES)}")
    parser.add_argument("--focus", action="append", default=[], help="only specs whose name matches this expression")
    parser.add_argument("--timeout", default="55m", help="the longest time of a suite")
    parser.add_argument("--folder", type=Path, help="where logs and reports go; a temporary folder by default")
    return parser


def run(suite: str, built: Programs, folder: Path, focus: Sequence[str], timeout: str) -> Result:
    """Run a suite in a cluster of its own; specs that only compare words run again without that comparison."""
    built.tools()
    program = built.suite(suite, VARIANTS.get(suite, ""))
    flags = [*(f"--focus={expression}" for expression in focus)] or FLAGS.get(suite, [])
    with world.control_plane() as plane:
        return asyncio.run(_run(suite, built, program, plane, folder, [*flags, f"--timeout={timeout}"]))


async def _run(
    suite: str, built: Programs, program: Path, plane: ControlPlane, folder: Path, flags: Sequence[str]
) -> Result:
    config = built.chart / "config" / world.CONFIG
    file = folder / f"{suite}.conf"
    shutil.copyfile(config, file)
    given = world.objects(config.read_text()) + world.kwok_nodes(world.KWOK[: KWOK_NODES.get(suite, 0)])
    async with world.running(plane.kubeconfig, file, given, volumes=suite not in VARIANTS) as components:

        async def outcome(tested: Path, name: str, chosen: Sequence[str]) -> list[Spec]:
            return await specs_of(tested, plane.kubeconfig, folder / name, chosen)

        running = asyncio.create_task(outcome(program, suite, flags))
        fault = asyncio.create_task(components.fault())
        await asyncio.wait((running, fault), return_when=asyncio.FIRST_COMPLETED)
        if fault.done():
            running.cancel()
            raise fault.result()
        fault.cancel()
        specs = await running
        parallel = [flag for flag in flags if flag.startswith("--procs")]
        if parallel:
            # Specs may use the same name of a queue: what failed beside others may pass alone.
            again_alone = Result(suite, tuple(specs)).worth_repeating
            names = [spec.name for spec in again_alone if not spec.differs_in_words]
            repeated = await outcome(program, f"{suite}-alone", _only(names)) if names else []
            specs = with_repeated(specs, repeated)
        worded = [spec.name for spec in specs if spec.differs_in_words]
        again: list[Spec] = []
        if worded:
            variant = await asyncio.to_thread(built.suite, suite, "refusals")
            again = await outcome(variant, f"{suite}-refusals", [*parallel, *_only(worded)])
        return Result(suite, tuple(specs), frozenset(spec.name for spec in again if spec.state == "passed"))


def _only(names: Sequence[str]) -> list[str]:
    """Return the flags that select these specs."""
    return [f"--focus={_exactly(name)}" for name in names]


def _exactly(name: str) -> str:
    """Return the regular expression (of Go) for the name of a spec."""
    return "".join(f"\\{sign}" if sign in r"\.+*?()|[]{}^$" else sign for sign in name) + "$"


if __name__ == "__main__":
    sys.exit(main())
