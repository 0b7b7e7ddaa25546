# Everything a newcomer or a machine runs. Needs Python 3.11+, make and pip; Go as well for the second test server.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin

.PHONY: demo test check bench golden controlplane helm image-check clean
.DEFAULT_GOAL := test

$(VENV)/.run: pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "volcanopy needs Python 3.11 or later, this is " + sys.version.split()[0] + ": call make PYTHON=python3.12, for example")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	@touch $@

$(VENV)/.dev: $(VENV)/.run
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

demo: $(VENV)/.run  ## Start a cluster on this machine, run the examples on it, show the outcome.
	$(BIN)/volcanopy local run examples/01-hello examples/02-gang examples/03-queues

check: $(VENV)/.dev  ## Format, lint, types, floors.
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

controlplane: $(VENV)/.dev  ## Build the real kube-apiserver and etcd for the tests, once, where Go is at hand.
	$(BIN)/python -m hack.controlplane

helm: $(VENV)/.dev  ## Build helm for the tests of the chart, once, where Go is at hand.
	$(BIN)/python -m hack.helm

test: check controlplane helm  ## Every test, on both API servers.
	$(BIN)/pytest -n 2 --dist loadfile

bench: $(VENV)/.dev  ## Timings, against bench/limits.toml.
	$(BIN)/python -m bench

golden: $(VENV)/.dev  ## Write the generated files anew: review the difference like code.
	$(BIN)/volcanopy crd --output-dir charts/volcanopy/crds
	$(BIN)/python -m hack.chartvalues
	$(BIN)/python -m tests.jobcontroller.plugins.writing
	$(BIN)/python -m tests.jobcontroller.writing
	$(BIN)/python -m hack.metricspage
	$(BIN)/python -m hack.configurationpage
	$(BIN)/python -m hack.clipage
	$(BIN)/python -m hack.gatestable

image-check: $(VENV)/.dev  ## Run the Dockerfile's steps in a clean root, and the services from it. Needs root and a Debian mirror.
	$(BIN)/python -m hack.image

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis
