# One environment for everything; made once, and again when pyproject.toml changes.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: train test lint types clean
.DELETE_ON_ERROR:

train: $(STAMP)
	$(BIN)/python train.py experiment=s2vs_evaclip $(ARGS)

test: $(STAMP)
	$(BIN)/python -m pytest -m "not slow" $(ARGS)

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP)
	$(BIN)/mypy

clean:
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -path ./.git -prune -o -name __pycache__ -type d -exec rm -rf {} +

$(STAMP): pyproject.toml
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(f"Python 3.10 or newer is needed, {sys.executable} is {v[0]}.{v[1]}; say make PYTHON=..." if v < (3, 10) else 0)'
	$(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear $(VENV)
	$(BIN)/python -m pip install --editable ".[demo,test]"
	touch $@
