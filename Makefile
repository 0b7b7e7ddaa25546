# Everything that a developer or a CI machine runs. Needs Python 3.11+, make and pip; with Go the tests also run against
# a real kube-apiserver, and `make chart` works.
PYTHON ?= python3
ENGINE ?= docker
IMAGE  ?= volcanopy:dev
DIST   ?= dist
CHARTS ?= oci://localhost:5000/charts
SUDO   ?= $(if $(filter 0,$(shell id -u)),,sudo)
REALNODE := $(SUDO) env PATH="$$PATH" HOME="$$HOME" OPERATORS="$(OPERATORS)" REALNODE=1
REALNODE_TESTS = $(REALNODE) $(BIN)/python -m pytest -v -rs --durations=0 --durations-min=2 -p no:cacheprovider tests/realnode
SPARK_JARS ?= $(HOME)/.cache/volcanopy/spark
SEED   ?= $(shell date +%j)
SECONDS_OF_CHAOS ?= 900
EARLIER ?= HEAD~100
MINUTES_OF_SOAK ?= 120
VENV   := .venv
BIN    := $(VENV)/bin
# setuptools warns of each editable installation in ten lines, which a new pip prints.
PIP    := PYTHONWARNINGS='ignore:Editable installation' $(BIN)/python -m pip install --quiet --disable-pip-version-check
# The distributions beside volcanopy, each with a project of its own.
PACKAGES := $(patsubst %/pyproject.toml,%,$(wildcard packages/*/pyproject.toml))
PROJECTS := pyproject.toml $(PACKAGES:%=%/pyproject.toml)
EDITABLE := --no-deps --no-build-isolation $(PACKAGES:%=--editable %) --editable .
COMPILE = $(VENV)/lock/bin/uv pip compile $(PROJECTS) --quiet --group build --universal --python-version 3.11 \
	--generate-hashes --excludes $(VENV)/lock/excludes --no-annotate --custom-compile-command 'make lock' $(UPGRADE)

.PHONY: demo packages test nightly chaos chaos-versions soak volcano-e2e volcano-examples spark-client dask-client airflow-client workflow-clients apiserver-alone operators realnode realnode-packages check check-style check-types check-imports check-docs docs bench bench-scheduler bench-pressure bench-live golden lock wheel sbom image push chart release push-chart sign controlplane helm image-check clean
.DEFAULT_GOAL := test

$(VENV)/.run: requirements.lock $(PROJECTS)
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "volcanopy needs Python 3.11 or later, this is " + sys.version.split()[0] + ": call make PYTHON=python3.12, for example")'
	@echo "Installing volcanopy and its dependencies into $(VENV): this takes a minute or more, once."
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python hack/pip_install.py requirements.lock
	@rm -rf $(addsuffix /*.egg-info,. $(PACKAGES))  # entry points of an earlier state, which Python finds in the folder where it starts
	@$(PIP) $(EDITABLE)
	@touch $@

$(VENV)/.dev: requirements-dev.lock $(VENV)/.run
	@echo "Installing the development tools into $(VENV)."
	@$(BIN)/python hack/pip_install.py requirements-dev.lock
	@touch $@

$(VENV)/.browser: $(VENV)/.dev
	$(PIP) --editable ".[browser]"
	@touch $@

demo: export PYTHONDONTWRITEBYTECODE =
demo: $(VENV)/.run  ## Run a gang, an array, a flow and a job that waits as programs of this machine.
	@PATH="$$PATH:$$PWD/$(BIN)" $(BIN)/volcanopy local run examples/demo --tail 1 --allow-waiting
	@echo "Next: '. $(BIN)/activate', 'volcanopy local up' for a cluster of your own, and docs/tutorial.md"

check: $(VENV)/.dev  ## The four checks below, two at a time.
	@$(MAKE) --no-print-directory --jobs=2 --output-sync=target check-types check-style check-imports check-docs

check-style: $(VENV)/.dev  ## Format, lint.
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

check-types: $(VENV)/.dev  ## Types.
	$(BIN)/mypy

check-imports: $(VENV)/.dev  ## Import contracts.
	$(BIN)/lint-imports

check-docs: $(VENV)/.dev  ## Docs site.
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

controlplane: $(VENV)/.dev  ## Build kube-apiserver and etcd for the tests, once, if Go is installed.
	$(BIN)/python -m hack.controlplane

helm: $(VENV)/.dev  ## Build helm for the tests of the chart, once, if Go is installed.
	$(BIN)/python -m hack.helm

packages: $(VENV)/.browser  ## Install what the tests of process nodes and of the web page use, on Debian or Ubuntu; without it they are skipped.
	$(SUDO) apt-get update --quiet
	$(SUDO) apt-get install --quiet --yes --no-install-recommends bubblewrap openmpi-bin openssh-server chromium fish zsh

# Not in each worker of pytest: all tests are collected once, for the compiled modules that this leaves behind.
$(VENV)/.compiled: $(VENV)/.dev
	@$(BIN)/pytest --collect-only --quiet > $(VENV)/collect.log || cat $(VENV)/collect.log
	@touch $@

# The tests start hundreds of processes, which share compiled modules. kube-apiserver, etcd and kubectl collect garbage a quarter as often.
test: export PYTHONDONTWRITEBYTECODE =
test: export GOGC = 400
test: $(VENV)/.dev  ## Every test that this machine can run, and the checks beside them; the end of the output names the others.
	@$(MAKE) --no-print-directory check > $(VENV)/check.log 2>&1 & check=$$!; trap 'kill $$check' INT TERM; \
	$(MAKE) --no-print-directory $(VENV)/.compiled; \
	$(BIN)/pytest -n 4 --dist loadfile --no-loadscope-reorder; tests=$$?; \
	wait $$check; checked=$$?; cat $(VENV)/check.log; \
	test $$tests = 0 && test $$checked = 0

volcano-e2e: $(VENV)/.dev controlplane  ## Volcano's own end-to-end suites; needs Go and VOLCANO_SOURCE=folder. Takes an hour or more.
	$(BIN)/python -m tests.volcano_e2e $(SUITES)

volcano-examples: $(VENV)/.dev controlplane  ## Volcano's examples, applied unchanged; needs VOLCANO_SOURCE=folder.
	$(BIN)/python -m tests.volcano_e2e.examples

spark-client: $(VENV)/.dev controlplane  ## Spark's own client; needs Java, Maven and SPARK_SOURCE=folder, and downloads 260 MB once.
	SPARK_JARS=$(SPARK_JARS) $(BIN)/python -m tests.clients.spark
	SPARK_JARS=$(SPARK_JARS) $(BIN)/python -m pytest -v -rs tests/clients/test_spark.py

dask-client: $(VENV)/.dev controlplane  ## Dask's own operator, which is installed in .venv/dask.
	$(PYTHON) -m venv $(VENV)/dask
	$(VENV)/dask/bin/python -m pip install --quiet --disable-pip-version-check dask-kubernetes==2026.3.0
	DASK_PYTHON=$(VENV)/dask/bin/python $(BIN)/python -m pytest -v -rs tests/clients/test_dask.py

airflow-client: $(VENV)/.dev controlplane  ## Airflow's own operator for pods, which is installed in .venv/airflow.
	$(PYTHON) -m venv $(VENV)/airflow
	$(VENV)/airflow/bin/python -m pip install --quiet --disable-pip-version-check apache-airflow-providers-cncf-kubernetes==10.25.0
	AIRFLOW_PYTHON=$(VENV)/airflow/bin/python $(BIN)/python -m pytest -v -rs tests/clients/test_airflow.py

apiserver-alone:  ## The tests of the embedded API server where only its own distribution is installed, in .venv/apiserver.
	$(PYTHON) -m venv $(VENV)/apiserver
	$(VENV)/apiserver/bin/python -m pip install --quiet --disable-pip-version-check --editable 'packages/apiserver[test]'
	cd packages/apiserver && $(CURDIR)/$(VENV)/apiserver/bin/python -m pytest -p no:cacheprovider tests

workflow-clients: $(VENV)/.dev  ## Snakemake, Prefect, an object store, an OpenID provider and, with Java and Maven, Nextflow; installed in .venv/clients.
	$(PYTHON) -m venv $(VENV)/clients
	$(VENV)/clients/bin/python -m pip install --quiet --disable-pip-version-check 's3fs>=2024.6' 'moto[server]>=5,<6' 'oidc-provider-mock<1' \
	  --editable . $(PACKAGES:%=--editable %) --editable '.[functions,prefect,snakemake]'
	if command -v mvn > /dev/null; then \
	  mvn --quiet --batch-mode --file tests/clients/nextflow.xml dependency:copy-dependencies -DoutputDirectory=$(CURDIR)/$(VENV)/nextflow; fi
	CLIENTS_PYTHON=$(CURDIR)/$(VENV)/clients/bin/python NEXTFLOW_JARS=$(CURDIR)/$(VENV)/nextflow $(BIN)/python -m pytest -v -rs tests/clients/test_nextflow.py \
	  tests/clients/test_object_store.py tests/clients/test_oidc.py tests/clients/test_prefect.py tests/clients/test_snakemake.py

operators: $(VENV)/.dev controlplane  ## Operators that ask for gangs, unchanged; needs OPERATORS=folder with their source trees and programs, and SPARK_HOME.
	OPERATORS=$(OPERATORS) SPARK_HOME=$(SPARK_HOME) $(BIN)/python -m pytest -v -rs tests/clients/test_gang_operators.py \
	  tests/clients/test_argo.py tests/clients/test_spark_operator.py

realnode-packages:  ## Install what make realnode uses, on Debian or Ubuntu.
	$(SUDO) apt-get update --quiet
	$(SUDO) apt-get install --quiet --yes --no-install-recommends libseccomp-dev pkg-config gcc iptables iproute2 \
	  containernetworking-plugins debootstrap

realnode: $(VENV)/.browser helm  ## The chart and jobs on a cluster with real kubelets, containerd and runc. Needs root, Go and kubectl.
	@trap '$(REALNODE) $(BIN)/python -m hack.realnode down' EXIT; \
	$(REALNODE) $(BIN)/python -m hack.realnode up --toleration 10 && $(REALNODE) $(BIN)/python -m hack.realnode install && \
	{ $(REALNODE_TESTS) -m "not alone" -n 3 --dist loadfile; beside=$$?; $(REALNODE_TESTS) -m alone -n 0 && test $$beside = 0; }

nightly: $(VENV)/.dev  ## The cases that make test leaves to the night: more seeds, all recorded plans, all rows of the table of long runs; property tests with new examples.
	$(BIN)/pytest -n 2 -m nightly
	$(BIN)/pytest -n 2 -m "hypothesis and not nightly" --hypothesis-profile=explore

chaos: $(VENV)/.dev controlplane  ## All faults on an embedded API server, then on a kube-apiserver with etcd; SEED is the day of the year.
	$(BIN)/python -m chaos --embedded --seconds $(SECONDS_OF_CHAOS) --jobs 150 --seed $(SEED)
	$(BIN)/python -m tests.chaos --seconds $(SECONDS_OF_CHAOS) --jobs 150 --seed $(SEED)

chaos-versions: $(VENV)/.dev  ## Chaos on an embedded API server where one of two schedulers and of two controllers is of the commit EARLIER.
	rm -rf $(VENV)/earlier && mkdir $(VENV)/earlier && git archive $(EARLIER) | tar -x -C $(VENV)/earlier
	$(MAKE) --no-print-directory -C $(VENV)/earlier $(VENV)/.run
	$(BIN)/python -m chaos --embedded --seconds $(SECONDS_OF_CHAOS) --jobs 150 --seed $(SEED) --other-python $(VENV)/earlier/$(BIN)/python

soak: $(VENV)/.dev  ## Whether memory, files, threads or objects grow while jobs come and go: on an embedded API server, MINUTES_OF_SOAK.
	$(BIN)/python -m bench soak --minutes $(MINUTES_OF_SOAK)

bench: $(VENV)/.dev  ## Measure times and compare them with bench/limits.toml.
	$(BIN)/python -m bench

bench-scheduler: $(VENV)/.dev  ## Measure the scheduler alone: decisions, growing worlds, memory, the largest cluster.
	$(BIN)/python -m bench scheduler growth memory large

bench-pressure: $(VENV)/.dev  ## Measure how long a job of one pod waits beside clients that misbehave, and beside large jobs.
	$(BIN)/python -m bench beside starving

bench-live: $(VENV)/.dev controlplane  ## Measure the processor time of a pod on a real API server, beside a bare client.
	$(BIN)/python -m bench live

docs: $(VENV)/.dev  ## Serve the docs site on http://127.0.0.1:8000 and rebuild it on every change.
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs serve --strict

golden: $(VENV)/.dev  ## Regenerate the generated files. Review the difference like code.
	$(BIN)/python -m hack.readmodels
	$(BIN)/python -m hack.protobuffields
	$(BIN)/volcanopy crd --output-dir charts/volcanopy/crds
	$(BIN)/python -m hack.chartvalues
	$(BIN)/python -m tests.jobcontroller.plugins.writing
	$(BIN)/python -m tests.jobcontroller.writing
	$(BIN)/python -m tests.admission.golden_cases
	$(BIN)/python -m hack.metricspage
	$(BIN)/python -m hack.configurationpage
	$(BIN)/python -m hack.clipage
	$(BIN)/python -m hack.gatestable
	$(BIN)/python -m hack.limitspage
	$(BIN)/python -m tests.security.bypass_table
	$(BIN)/python -m tests.local.process.isolation_table

lock:  ## Regenerate the lock files from pyproject.toml; `make lock UPGRADE=--upgrade` takes the newest versions.
	test -x $(VENV)/lock/bin/python || $(PYTHON) -m venv $(VENV)/lock
	$(VENV)/lock/bin/python -m pip install --quiet --disable-pip-version-check uv
	$(VENV)/lock/bin/python -c 'from hack.distributions import VERSIONS; print(*VERSIONS, sep="\n")' > $(VENV)/lock/excludes
	$(COMPILE) --output-file requirements.lock
	$(COMPILE) --extra dev --constraint requirements.lock --output-file requirements-dev.lock

wheel: $(VENV)/.run  ## Build the wheels of all distributions into dist/.
	rm -rf $(addsuffix /build,. $(PACKAGES))
	$(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation --wheel-dir $(DIST) $(PACKAGES:%=./%) .

sbom: $(VENV)/.dev  ## Write the software bill of materials into dist/ (CycloneDX JSON), from requirements.lock.
	$(BIN)/python -m hack.sbom $(DIST)/sbom.cdx.json

image:  ## Build the image IMAGE with docker, or with ENGINE=podman; BASE=python@sha256:... pins the base image.
	$(ENGINE) build $(if $(BASE),--build-arg BASE=$(BASE)) --tag $(IMAGE) .

push: image  ## Push the image IMAGE to its registry.
	$(ENGINE) push $(IMAGE)

chart: helm  ## Package the Helm chart into dist/.
	"$$($(BIN)/python -c 'from hack.helm import helm; print(helm() or "helm")')" package charts/volcanopy --destination $(DIST)

image-check: $(VENV)/.dev  ## Run the steps of the Dockerfile in a clean root, and the services from it. Needs root and a Debian mirror.
	$(BIN)/python -m hack.imagecheck

release: $(VENV)/.dev helm  ## Everything of a release that needs no account, into dist/: distributions, chart, kubectl plugin, docs site.
	$(BIN)/python -m hack.release --dry-run --directory $(DIST)

push-chart:  ## Push the packaged chart to CHARTS (oci://...); a release does.
	"$$($(BIN)/python -c 'from hack.helm import helm; print(helm() or "helm")')" push $(DIST)/volcanopy-*.tgz $(CHARTS)

sign:  ## Sign the image DIGEST (REGISTRY/NAME@sha256:...) with the identity of the workflow; a release does.
	cosign sign --yes $(DIGEST)

clean:  ## Remove the virtual environment, caches and build results.
	rm -rf $(VENV) $(DIST) build site .mypy_cache .ruff_cache .pytest_cache .hypothesis
