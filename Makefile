# Everything starts from a machine with Python >= 3.11, make and the package registries; `make setup` does the rest.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SEEDS ?= 100

.PHONY: setup demo test slow reference cluster podman guest trust trust-controls lint types layers simulate lock check clean

setup: $(VENV)/.ready

$(VENV)/.ready: uv.lock requirements.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit("headrace needs Python 3.11 or newer; this is " + sys.version.split()[0] + " (set PYTHON=)" if sys.version_info < (3, 11) else 0)'
	@if command -v uv >/dev/null 2>&1; then \
		echo "setup: uv sync from uv.lock"; uv sync --frozen --quiet --python "$$(command -v $(PYTHON))"; \
	else \
		echo "setup: pip install from requirements.txt"; \
		test -x $(BIN)/python || $(PYTHON) -m venv $(VENV); \
		$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.txt && \
		PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .; \
	fi
	@touch $@

demo: setup
	@$(BIN)/headrace demo

test: setup
	$(BIN)/pytest -m "not slow and not slow_reference and not cluster and not trust and not podman and not guest" -n 2 --dist loadgroup

slow: setup
	$(BIN)/pytest -m "slow"

# Kubernetes' own code, built with Go from the module proxy into a cache outside the tree, as the judge of ours.
reference: setup
	@command -v go >/dev/null || { echo "make reference needs Go 1.26 on PATH"; exit 1; }
	HEADRACE_CEL_EXPRESSIONS=$${HEADRACE_CEL_EXPRESSIONS:-10000} $(BIN)/pytest -m "slow_reference"

# A real control plane, built with Go once (about 8 minutes, into ~/.cache/headrace), on loopback; then ours under its kubectl.
cluster: setup
	@command -v go >/dev/null || { echo "make cluster needs Go 1.26 on PATH"; exit 1; }
	$(BIN)/pytest -m "cluster"
	HEADRACE_KUBECTL="$$($(BIN)/python -m tests.kubernetes.build)/kubectl" $(BIN)/pytest tests/e2e/kubectl

# Containers by a Podman service of the tests' own, with runc, as root; no registry is needed.
podman: setup
	$(BIN)/pytest -m "podman"

# cgroup v2 for real: Debian's cloud kernel (fetched by apt into ~/.cache/headrace, not installed) under QEMU, without KVM,
# runs the tests marked real_cgroups on a unified hierarchy. Its console is shown as it comes.
guest: setup
	$(BIN)/pytest -m "guest" -s

# Faults: kills, power cuts, failing and full disks, damage, clocks, cut lines, histories judged by porcupine (Go), with
# strace and gcc. Each checker has a control, a wrong state that it must notice: `trust-controls` runs these alone.
trust: setup
	$(BIN)/pytest -m "trust" -n 2 -rP --show-capture=stdout

trust-controls: setup
	$(BIN)/pytest -m "trust" -k "control" -n 2

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: setup
	$(BIN)/mypy

layers: setup
	$(BIN)/lint-imports

simulate: setup
	$(BIN)/python -m tests.simulation --seeds $(SEEDS) $(if $(SEED),--seed $(SEED))

# The two locks say the same: uv.lock is the source, requirements.txt (with hashes, for pip) is exported from it.
lock:
	uv lock
	uv export --frozen --all-groups --no-emit-project --format requirements-txt --output-file requirements.txt --quiet

check: lint types layers test

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
