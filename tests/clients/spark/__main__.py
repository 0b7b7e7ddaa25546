"""Build Spark's client: `SPARK_SOURCE=folder SPARK_JARS=folder python -m tests.clients.spark`, with Java and Maven.

Spark's published jars lack ``VolcanoFeatureStep``, because they are built without the profile ``volcano``. This puts the jars (260 MB)
into a folder, and compiles the feature step, unchanged, from a checkout of Spark (``v4.1.0``), and the program of the test.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
STEP = "resource-managers/kubernetes/core/volcano/src/main/scala/org/apache/spark/deploy/k8s/features/VolcanoFeatureStep.scala"


def main() -> int:
    """Build what is missing; exits with 0 and a reason where that is not possible."""
    missing = [name for name in ("SPARK_SOURCE", "SPARK_JARS") if not os.environ.get(name)]
    missing += [name for name in ("mvn", "java", "javac", "jar") if shutil.which(name) is None]
    if missing:
        print(f"spark-client: skipped: needs {', '.join(missing)}")
        return 0
    step, jars = Path(os.environ["SPARK_SOURCE"]) / STEP, Path(os.environ["SPARK_JARS"]).absolute()
    if not step.is_file():
        print(f"spark-client: SPARK_SOURCE is no checkout of Spark: no {step}", file=sys.stderr)
        return 2
    build(step, jars)
    return 0


def build(step: Path, jars: Path) -> None:
    """Fill the folder with Spark's jars, the compiled feature step and the program of the test."""
    jars.mkdir(parents=True, exist_ok=True)
    _run(
        "mvn",
        "-q",
        "-f",
        str(HERE / "pom.xml"),
        "dependency:copy-dependencies",
        "dependency:copy",
        f"-DoutputDirectory={jars}",
    )
    with tempfile.TemporaryDirectory() as folder:
        classes = f"{jars}/*"
        for name, program in (
            (
                "volcano-feature-step",
                ("java", "-cp", classes, "scala.tools.nsc.Main", "-usejavacp", "-d", folder, str(step)),
            ),
            ("sum", ("javac", "-cp", classes, "-d", folder, str(HERE / "Sum.java"))),
        ):
            _run(*program)
            _run("jar", "cf", str(jars / f"{name}.jar"), "-C", folder, ".")


def _run(*command: str) -> None:
    subprocess.run(command, check=True)


if __name__ == "__main__":
    sys.exit(main())
