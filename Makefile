# The whole developer interface. `make` lists what there is.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help
MAKEFLAGS += --no-builtin-rules

PYTHON ?= python3
HOST ?= 127.0.0.1
PORT ?= 3000
PYTEST_ARGS ?=
WORKERS ?= auto
# The environment of samconfig.toml, the database that is published to it (none: DATABASE=), how many releases then stay
# (all: KEEP=), and more options for sam deploy or sam delete.
ENV ?= default
DATABASE ?= build/database
KEEP ?= 10
SAM_ARGS ?=
ARCH ?=
FULL ?=
MINUTES ?= 4
RUNS ?= 300
SEED ?= 1
BASE_IMAGE ?= public.ecr.aws/lambda/python:3.13

BIN := .venv/bin
UV := $(BIN)/uv
# The Python that is there is the one that is used: uv neither downloads nor looks for another.
export UV_PYTHON_DOWNLOADS := never
export UV_NO_PROGRESS := 1
# As pip does: trust what the machine trusts, a company's own authority included.
export UV_SYSTEM_CERTS ?= 1
# The project's own .venv, whatever environment the caller has activated.
export VIRTUAL_ENV := $(CURDIR)/.venv
unexport PYTHONHOME PYTHONPATH CONDA_PREFIX

READY := .venv/.ready
LOCKING := --quiet --universal --python-version 3.11 --generate-hashes \
	--no-emit-index-url --no-annotate --custom-compile-command 'make lock' $(if $(UPGRADE),--upgrade)
LOCK := $(UV) pip compile pyproject.toml $(LOCKING)
LOCK_TOOL := $(UV) pip compile $(LOCKING)

# Each in an environment of its own, because they pin older versions of what Bedivere needs. The folder is hidden, so that
# `make run`, which indexes the checkout, passes it over.
TOOLS := audit base checkov ministack sam
export SAM_CLI_TELEMETRY := 0
# Lambda takes no image with an attestation beside it: "image manifest, config or layer media type is not supported".
export BUILDX_NO_DEFAULT_ATTESTATIONS := 1

.PHONY: help setup run test lint types walls unit e2e fuzz audit baselines bench bench-cold bench-docs bench-index bench-warm import-budget conformance format core kill-tests lock clean soak image image-size deploy destroy e2e-image

help: ## What can be done here
	@echo "Bedivere. Needs Python 3.11 or later, pip and make; everything else goes into .venv"
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

setup: $(READY) ## Make .venv and install what requirements/dev.lock holds, hashes checked (PYTHON=python3.13 for another)

# uv itself comes by pip, from the same lock, and is fetched only where it is missing.
$(UV):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "Bedivere needs Python 3.11 or later, but $(PYTHON) is `$(PYTHON) --version 2>&1 || true`; name another with PYTHON=python3.11" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null \
		|| { echo "$(PYTHON) cannot make virtual environments; on Debian and Ubuntu: apt-get install python3-venv" >&2; exit 1; }
	$(PYTHON) -m venv .venv
	@awk '/^[^ ]/ { wanted = /^uv==/ } wanted' requirements/dev.lock > .venv/uv.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --requirement .venv/uv.lock

# The project is built with the hatchling that the lock holds, so nothing is fetched without its hash.
$(READY): requirements/dev.lock pyproject.toml | $(UV)
	$(UV) pip sync --quiet --require-hashes --compile-bytecode requirements/dev.lock
	$(UV) pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

run: setup ## Index this project's own documentation and serve it on http://HOST:PORT/mcp until Ctrl-C
	@mkdir -p build
	$(BIN)/bedivere index . build/database --include /README.md --include /PRIVACY.md --include '/docs/*.md'
	@exec $(BIN)/bedivere serve --http $(PORT) --host $(HOST) --database build/database

test: lint types walls ## Everything a reviewer would run: lint, types, the walls, all tests with coverage
	$(BIN)/pytest --numprocesses $(WORKERS) --cov --cov-report=term $(PYTEST_ARGS)

lint: setup ## Style and formatting
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: setup ## Types, strictly
	$(BIN)/pyright

walls: setup ## Which package may import which
	$(BIN)/lint-imports --no-logo

unit: setup ## The tests that need no second process
	$(BIN)/pytest -m 'not e2e' $(PYTEST_ARGS)

e2e: setup ## The tests that drive the finished product
	$(BIN)/pytest -m e2e $(PYTEST_ARGS)

fuzz: setup ## What a stranger may send, longer and at random (PYTEST_ARGS='-k readers' for a part)
	$(BIN)/pytest tests/fuzz --hypothesis-profile=fuzz --numprocesses $(WORKERS) -o faulthandler_timeout=3600 $(PYTEST_ARGS)

baselines: setup ## Measure the judged handbook anew and write what `make test` compares with
	$(BIN)/python -m tests.corpus.baselines

bench: setup ## Figures, as ratios, without thresholds
	$(BIN)/python -m tests.bench $(BENCH_ARGS)

bench-cold: setup ## What a cold start costs until its first answer, as ratios (BENCH_ARGS='--rounds 21 --svg FILE')
	$(BIN)/python -m tests.bench.cold $(BENCH_ARGS)

bench-warm: setup build/bench/rivals/.ready ## What a warm call costs, beside other engines (FULL=1: a million chunks too, BENCH_ARGS='--only text')
	FULL=$(FULL) $(BIN)/python -m tests.bench.warm $(BENCH_ARGS)

# The engines that are compared with, for the bench alone: beside the environment, not in it.
build/bench/rivals/.ready: requirements/bench.lock | $(READY)
	@rm -rf $(@D)
	@$(UV) pip install --quiet --require-hashes --target $(@D) --requirement $<
	@touch $@

bench-index: setup ## What indexing costs, in parts, and publishing and syncing beside plain transfers (BENCH_ARGS='--sizes 10000')
	$(BIN)/python -m tests.bench.index $(BENCH_ARGS)

bench-docs: setup ## The figures that --json of the benches wrote, into the tables of docs/performance.md (REPORTS='FILE ...')
	$(BIN)/python -m tests.bench.docs $(REPORTS)

soak: setup ## The function under load while releases flip and stores fail, each answer checked (MINUTES=4, SEED=1)
	$(BIN)/python -m tests.soak --minutes $(MINUTES) --seed $(SEED)

kill-tests: setup ## Index, publish and sync, killed hundreds of times and cut off from power (RUNS=300, SEED=1)
	$(BIN)/python -m tests.kills --runs $(RUNS) --seed $(SEED)

import-budget: setup ## Renew the list of what may be imported until the first answer
	$(BIN)/python -m tests.handler.import_budget

conformance: setup ## The official MCP conformance suite against a live server, check by check
	$(BIN)/pytest --verbose tests/e2e/conformance/test_conformance.py $(PYTEST_ARGS)

format: setup ## Rewrite the code in the project's style
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

core: $(UV) ## Import the server with only what the Lambda image installs
	$(UV) venv --quiet --clear --python $(BIN)/python build/core
	VIRTUAL_ENV=$(CURDIR)/build/core $(UV) pip sync --quiet --require-hashes requirements/core.lock
	build/core/bin/python -c 'import handler.main, retrieval.retriever'

audit: core build/.tools/audit/.ready ## What is known against the packages of the image, their licences, an SBOM, secrets; asks PyPI
	@$(BIN)/python infra/audit.py $(AUDIT_ARGS)

lock: $(UV) ## Renew requirements/*.lock and the npm lock from what they were made of (UPGRADE=1 for newer versions)
	$(LOCK) --extra dev --output-file requirements/dev.lock
	$(LOCK) --extra index --constraint requirements/dev.lock --output-file requirements/index.lock
	$(LOCK) --constraint requirements/dev.lock --output-file requirements/core.lock
	$(LOCK_TOOL) requirements/bench.in --constraint requirements/dev.lock --output-file requirements/bench.lock
	for tool in $(TOOLS); do $(LOCK_TOOL) requirements/tools/$$tool.in --output-file requirements/tools/$$tool.lock; done
	$(BIN)/python -m tests.e2e.conformance.npm lock

build/.tools/%/.ready: requirements/tools/%.lock | $(UV)
	@$(UV) venv --quiet --clear --python $(BIN)/python build/.tools/$*
	@VIRTUAL_ENV=$(CURDIR)/build/.tools/$* $(UV) pip sync --quiet --require-hashes $<
	@touch $@

image: ## Build the Lambda image (ARCH=arm64|x86_64 for another processor than this one's) and print its size
	@docker build $(if $(findstring buildx,$(shell docker buildx version 2>/dev/null)),--provenance=false) --tag bedivere:latest \
		$(if $(ARCH),--platform linux/$(ARCH:x86_64=amd64)) --build-arg BASE_IMAGE=$(BASE_IMAGE) --file infra/Dockerfile .
	@docker history --human=false --format '{{.Size}}' bedivere:latest | awk 'NR <= 5 { bytes += $$1 } END { \
		printf "bedivere:latest adds %.0f MB to its base, unpacked\n", bytes / 1e6 }'

image-size: setup ## What the image adds to its base by package, and what was removed; needs no Docker (ARCH=arm64|x86_64)
	@$(BIN)/python infra/image_size.py build/image-size $(or $(ARCH),arm64)

deploy: setup build/.tools/sam/.ready ## Deploy to ENV of samconfig.toml: validate, build, deploy, publish DATABASE, smoke
	@$(BIN)/python infra/deploy.py --environment "$(ENV)" --database "$(DATABASE)" --keep "$(KEEP)" -- $(SAM_ARGS)

destroy: setup build/.tools/sam/.ready ## Delete the stack of ENV after asking; the bucket of the dataset stays
	@$(BIN)/python infra/deploy.py --destroy --environment "$(ENV)" -- $(SAM_ARGS)

e2e-image: setup $(patsubst %,build/.tools/%/.ready,$(filter-out audit,$(TOOLS))) ## Build the image, run it, deploy it to a local AWS and smoke it (ARCH=arm64 under emulation); needs Docker
	$(BIN)/python -m tests.image $(if $(ARCH),--architecture $(ARCH))

clean: ## Remove .venv and everything built
	rm -rf .venv build dist .aws-sam htmlcov .coverage .coverage.* .pytest_cache .ruff_cache .import_linter_cache .hypothesis
