"""Runs of the programs of Volcano's suites."""

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path

from tests.volcano_e2e import report
from tests.volcano_e2e.report import Spec


async def specs_of(program: Path, kubeconfig: Path, report_at: Path, flags: Sequence[str]) -> list[Spec]:
    """Run the program of a suite with these flags and return its specs; report and log are written beside each other."""
    json_report, log = report_at.with_suffix(".json"), report_at.with_suffix(".log")
    artifacts = report_at.parent / "artifacts"
    artifacts.mkdir(exist_ok=True)
    environment = os.environ | {
        "KUBECONFIG": str(kubeconfig),
        "ARTIFACTS_PATH": str(artifacts),
        "VC_BIN": str(program.parent),
    }
    reporting = [f"--json-report={json_report.name}", f"--output-dir={report_at.parent}"]
    argv = [str(program.with_name("ginkgo")), "-v", "--no-color", *reporting, *flags, str(program)]
    with log.open("wb") as output:
        process = await asyncio.create_subprocess_exec(
            *argv, cwd=report_at.parent, env=environment, stdout=output, stderr=output
        )
        try:
            await process.wait()
        except asyncio.CancelledError:
            process.terminate()
            raise
    if not json_report.exists():
        raise SystemExit(f"{program.name} wrote no report: see {log}")
    return report.specs(json_report)
