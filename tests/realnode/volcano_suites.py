"""Volcano's end-to-end specs that need containers, on real kubelets: volume binding, and devices of a driver (DRA).

`python -m tests.realnode.volcano_suites [suite ...]` on a cluster of four nodes without the product
(`python -m hack.realnode up --nodes 4`) installs the chart with Volcano's API and the configuration of Volcano's CI, builds the
suites unchanged and runs these specs. The other specs run on simulated nodes: `make volcano-e2e`. Variables of the environment
name folders with source: VOLCANO_SOURCE; HOSTPATH_SOURCE of csi-driver-host-path, whose program connects the driver in the suite
with the kubelets; LOCAL_PATH_SOURCE of local-path-provisioner, which provisions the storage class of kind's clusters. The other
images of the suites are stood in for by busybox. FOCUS=text runs only the specs with this text.
"""

import asyncio
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

import yaml

from hack import gobuild
from hack.gobuild import BuildError
from hack.realnode import images, product
from hack.realnode.cluster import ROOT, Cluster
from hack.realnode.images import File, ImageConfig
from hack.realnode.shell import CommandError, log
from tests.volcano_e2e.building import Programs, programs
from tests.volcano_e2e.ginkgo import specs_of
from tests.volcano_e2e.report import Result
from tests.volcano_e2e.world import CONFIG, CONFIG_NAME, CONFIG_NAMESPACE

HOSTPATH, LOCAL_PATH = "HOSTPATH_SOURCE", "LOCAL_PATH_SOURCE"
FLAGS: Mapping[str, tuple[str, ...]] = {
    "schedulingbase": ("--focus=Volume Binding Test",),
    "dra": ("--focus=DRA (Quota )?E2E Test",),
}
"""The specs of each suite, selected as Volcano's script does."""
TESTED = "registry.k8s.io/e2e-test-images"
WAIT = b"#!/bin/sh\ntrap 'exit 0' TERM\nwhile true; do sleep 0.2; done\n"
WEB = b"#!/bin/sh\nmkdir -p /tmp/www && exec httpd -f -p 80 -h /tmp/www\n"
SCHEDULER = "app.kubernetes.io/component=scheduler"
REFRESH_SECONDS = 3.0
STORAGE_CLASS = {
    "apiVersion": "storage.k8s.io/v1",
    "kind": "StorageClass",
    "metadata": {"name": "standard", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
    "provisioner": "rancher.io/local-path",
    "volumeBindingMode": "WaitForFirstConsumer",
}
UNRESERVED = {"requests": {"cpu": 0}}
"""Specs request all cpus of a node that has two: nothing else may request a part of one."""
SETTINGS = {
    "fullnameOverride": "volcanopy",
    "image": {"repository": "localhost/volcanopy", "tag": "dev", "pullPolicy": "Never"},
    "api": "volcano",
    "scheduler": {
        "replicas": 1,
        "podEvents": True,
        "resources": UNRESERVED,
        "extraArgs": [f"--config=/etc/suite/{CONFIG}"],
        "extraVolumes": [{"name": "suite", "configMap": {"name": CONFIG_NAME}}],
        "extraVolumeMounts": [{"name": "suite", "mountPath": "/etc/suite"}],
    },
    "controller": {"replicas": 1, "resources": UNRESERVED},
    "admission": {"replicas": 1, "resources": UNRESERVED},
}


def suite_images(folder: Path) -> list[Path]:
    """Write the archives of the images that the specs name. Raises BuildError."""
    stands_in = {
        "agnhost": (ImageConfig((f"{TESTED}/agnhost:2.63.0",), ("/program",)), WAIT),
        "nginx": (ImageConfig((f"{TESTED}/nginx:1.15-4", "docker.io/library/nginx:1.29.3-alpine"), ("/program",)), WEB),
        "busybox": (ImageConfig((f"{TESTED}/busybox:1.37.0-1",), command=("sh",)), WAIT),
    }
    archives = [
        images.image_with_busybox(folder / f"{name}.tar", config, {"program": File(content, 0o755)})
        for name, (config, content) in stands_in.items()
    ]
    hostpath = built_program(HOSTPATH, "./cmd/hostpathplugin").read_bytes()
    provisioner = built_program(LOCAL_PATH, ".").read_bytes()
    programs_of = {
        "registry.k8s.io/sig-storage/hostpathplugin:v1.17.1": ("hostpathplugin", hostpath),
        provisioner_image(): ("bin/local-path-provisioner", provisioner),
    }
    for tag, (path, content) in programs_of.items():
        config = ImageConfig((tag,), (f"/{path}",))
        archive = folder / f"{Path(path).name}.tar"
        archives.append(images.image_with_busybox(archive, config, {path: File(content, 0o755)}))
    return archives


def source_folder(variable: str) -> Path:
    """Return the folder with source that a variable names. Raises BuildError."""
    source = Path(os.environ.get(variable) or "/nonexistent")
    if not (source / "go.mod").exists():
        raise BuildError(f"{variable} is not a folder with the source of a Go module")
    return source


def built_program(variable: str, package: str) -> Path:
    """Return the program of a package, which is built if it does not exist. Raises BuildError."""
    source, go = source_folder(variable), shutil.which("go")
    if go is None:
        raise BuildError("no Go on PATH")
    program = gobuild.cache_folder("volcano-suites", source) / "program"
    with gobuild.locked(program.parent, log):
        if not gobuild.runs(program):
            gobuild.build(go, source, package, program, source.name, {}, log)
    return program


def provisioner_manifest() -> Path:
    """Return the manifest of the provisioner. Raises BuildError."""
    return source_folder(LOCAL_PATH) / "deploy" / "local-path-storage.yaml"


def provisioner_image() -> str:
    """Return the image that the manifest of the provisioner names. Raises BuildError."""
    documents = yaml.safe_load_all(provisioner_manifest().read_text())
    (deployment,) = (document for document in documents if document["kind"] == "Deployment")
    image: str = deployment["spec"]["template"]["spec"]["containers"][0]["image"]
    return image


def install_provisioner(cluster: Cluster, folder: Path) -> None:
    """Install the provisioner and the default storage class of kind's clusters. Raises CommandError."""
    cluster.kubectl("apply", f"--filename={provisioner_manifest()}")
    storage = folder / "storage.json"
    storage.write_text(json.dumps(STORAGE_CLASS))
    cluster.kubectl("create", f"--filename={storage}")


def install(cluster: Cluster, built: Programs, folder: Path) -> None:
    """Install the chart as the suites expect Volcano's. Raises CommandError."""
    cluster.kubectl("--namespace=kube-system", "set", "resources", "deployment/coredns", "--requests=cpu=0")
    product.define_volcano_kinds(cluster)
    configuration = folder / CONFIG
    shutil.copyfile(built.chart / "config" / CONFIG, configuration)
    cluster.kubectl("create", "namespace", CONFIG_NAMESPACE)
    place = f"--namespace={CONFIG_NAMESPACE}"
    cluster.kubectl(place, "create", "configmap", CONFIG_NAME, f"--from-file={configuration}")
    values = folder / "values.yaml"
    values.write_text(yaml.safe_dump(SETTINGS))
    chart = str(ROOT / "charts" / "volcanopy")
    arguments = ("install", "integration", chart, place, "--wait", f"--timeout={product.TIMEOUT}", f"--values={values}")
    product.run_helm(cluster, *arguments)


async def run(cluster: Cluster, folder: Path, suite: str, program: Path) -> Result:
    """Run the specs of a suite, print and return their result."""
    focus = os.environ.get("FOCUS")
    flags = (f"--focus={focus}",) if focus else FLAGS[suite]
    specs = await specs_of(program, cluster.kubeconfig, folder / suite, (*flags, "--timeout=40m"))
    result = Result(suite, tuple(specs))
    print("\n".join(result.lines()), flush=True)
    return result


async def refresh_configuration(cluster: Cluster) -> None:
    """Change the scheduler's pod for ever, so that its kubelet reads the configuration again. The suites do so with the pods of
    the label of Volcano's scheduler, beside which the product does not run."""
    arguments = (f"--namespace={CONFIG_NAMESPACE}", "annotate", "pods", f"--selector={SCHEDULER}", "--overwrite")
    while True:
        await asyncio.to_thread(cluster.kubectl, *arguments, f"refreshed={time.time()}")
        await asyncio.sleep(REFRESH_SECONDS)


async def run_all(cluster: Cluster, folder: Path, built: Mapping[str, Path]) -> list[Result]:
    """Run the suites at once: two specs of volumes wait for five minutes."""
    refreshing = asyncio.create_task(refresh_configuration(cluster))
    try:
        return await asyncio.gather(*(run(cluster, folder, suite, program) for suite, program in built.items()))
    finally:
        refreshing.cancel()


def main(suites: list[str]) -> int:
    """Install the product and run the suites."""
    cluster, folder = Cluster(), Path(tempfile.mkdtemp(prefix="volcano-suites-"))
    try:
        built = programs()
        built.tools()
        binaries = {suite: built.suite(suite) for suite in suites or FLAGS}
        cluster.load([images.product_image(), *suite_images(folder)])
        install_provisioner(cluster, folder)
        install(cluster, built, folder)
    except (BuildError, CommandError) as error:
        print(error, file=sys.stderr)
        return 1
    results = asyncio.run(run_all(cluster, folder, binaries))
    print(f"logs and reports: {folder}")
    return int(any(result.unexplained for result in results))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
