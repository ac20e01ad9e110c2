# One environment for everything; made once, and again when pyproject.toml changes.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# Tests run in this many processes; WORKERS=0 runs them in one, which a debugger needs.
WORKERS ?= auto

.PHONY: train test lint types bench clean
.DELETE_ON_ERROR:

train: $(STAMP)
	$(BIN)/python train.py experiment=s2vs_evaclip $(ARGS)

test: $(STAMP)
	$(BIN)/python -m pytest -n $(WORKERS) --maxprocesses 8 --dist loadfile --no-loadscope-reorder -m "not slow" $(ARGS)

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP)
	$(BIN)/mypy

# Each prints a table: ours against a plain reference, in one run. ARGS="--quick" or ARGS="--threads 1 --cpu-time" go to
# the first three. It needs no more than `make test`.
bench: $(STAMP)
	$(BIN)/python benchmarks/step.py $(ARGS)
	$(BIN)/python benchmarks/score.py $(ARGS)
	$(BIN)/python benchmarks/load.py $(ARGS)
	$(BIN)/python benchmarks/evaluate.py --quick

clean:
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -path ./.git -prune -o -name __pycache__ -type d -exec rm -rf {} +

$(STAMP): pyproject.toml
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(f"Python 3.10 or newer is needed, {sys.executable} is {v[0]}.{v[1]}; say make PYTHON=..." if v < (3, 10) else 0)'
	$(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear $(VENV)
	$(BIN)/python -m pip install --editable ".[demo,test]"
	touch $@
