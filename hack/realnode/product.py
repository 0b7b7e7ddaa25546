"""The product on the cluster: its images, and its chart with all parts."""

import sys
import tempfile
from pathlib import Path

from hack import helm
from hack.realnode import images
from hack.realnode.cluster import ROOT, Cluster
from hack.realnode.shell import CommandError, log, run

RELEASE, NAMESPACE = "volcanopy", "volcanopy-system"
TIMEOUT = "5m"
VALUES = Path(__file__).parent / "values.yaml"


def run_helm(cluster: Cluster, *arguments: str) -> str:
    """Run helm as the administrator, in the namespace of the product. Raises CommandError."""
    program: Path | None = helm.helm()
    if program is None:
        raise CommandError("helm is not built: run `make helm`")
    return run(program, f"--kubeconfig={cluster.kubeconfig}", f"--namespace={NAMESPACE}", *arguments)


def deploy(cluster: Cluster, *values: str) -> None:
    """Install the chart, or upgrade it, with further values; wait until everything is ready. Raises CommandError."""
    settings = [f"--values={VALUES}", *(f"--set={value}" for value in values)]
    chart = str(ROOT / "charts" / "volcanopy")
    run_helm(
        cluster,
        "upgrade",
        "--install",
        RELEASE,
        chart,
        "--create-namespace",
        "--wait",
        f"--timeout={TIMEOUT}",
        *settings,
    )


def define_volcano_kinds(cluster: Cluster) -> None:
    """Create the definitions of Volcano's kinds. Raises CommandError."""
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as definitions:
        definitions.write(run(sys.executable, "-m", "volcanopy", "crd", "--api", "volcano"))
        definitions.flush()
        cluster.kubectl("apply", "--server-side", f"--filename={definitions.name}")


def install(cluster: Cluster) -> None:
    """Load the images of the product and of the jobs, and install the chart with both APIs. Raises CommandError."""
    define_volcano_kinds(cluster)
    cluster.load([images.product_image(), images.jobs_image()])
    log("images are loaded")
    deploy(cluster)
    log("the chart is installed")
