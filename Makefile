# Every target sets up .venv by itself; nothing needs to be installed by hand but Python >= 3.10 and make.

PYTHON ?= python3
VENV ?= .venv
CONSTRAINTS ?= constraints.txt
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint $(CONSTRAINTS)

.PHONY: help demo test slow coverage fuzz soak dist lint format bench docs clean

help:  ## show this list
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 10

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.base: $(BIN)/python pyproject.toml $(CONSTRAINTS)
	@echo "setting up $(VENV) (once; this takes a few minutes)"
	@$(PIP) --editable '.[report]'
	@touch $@

$(VENV)/.dev: $(VENV)/.base
	@OMP_NUM_THREADS=1 $(BIN)/python tools/compile_kernels.py & $(PIP) --editable '.[dev]'; done=$$?; wait; exit $$done
	@touch $@

demo: $(VENV)/.base  ## set up, train all six methods on Cora and end with a page that compares them
	$(BIN)/fishergcn data list
	$(BIN)/fishergcn spectrum cora
	$(BIN)/fishergcn reproduce table2 --dataset cora --splits 3 --seeds 1 --device cpu --out demo
	$(BIN)/fishergcn train --dataset cora --method fishergcn --splits public --seeds 1 --out demo/model --overwrite
	$(BIN)/fishergcn geometry fisher demo/model --keep
	$(BIN)/fishergcn report demo
	@echo "Open demo/report.html in a browser: it says what was compared, what came out and what to do next."

test: $(VENV)/.dev  ## set up and run all tests but the slow ones
	@tools/install_chromium.sh
	OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n 3 --dist loadfile -q

slow: $(VENV)/.dev  ## the tests that take minutes
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -m slow

coverage: $(VENV)/.dev  ## all tests, slow ones too, with the share of lines that they run
	@tools/install_chromium.sh
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadfile -q -m "slow or not slow" --cov=fishergcn --cov-report=term:skip-covered
	$(BIN)/python -m coverage report --format=total > results/trust/coverage.txt
	$(BIN)/python tools/trust_page.py

$(VENV)/.fuzz: $(VENV)/.dev
	@$(PIP) --editable '.[fuzz]'
	@touch $@

fuzz: $(VENV)/.fuzz  ## hostile input for every reader and the command line, seeded and bounded; rewrites docs/trust.md
	rm -f results/trust/fuzz.json
	$(BIN)/python tools/fuzz.py --inputs 10000 --first-seed 300000 --report results/trust/fuzz.json
	$(BIN)/python tools/fuzz.py --engine atheris --inputs 5000 --first-seed 7 --report results/trust/fuzz.json
	$(BIN)/python tools/trust_page.py

soak: $(VENV)/.dev  ## a sweep disturbed, and all kinds of commands killed, at random moments; rewrites docs/trust.md
	rm -f results/trust/soak.log
	OMP_NUM_THREADS=1 $(BIN)/python tools/soak.py --kills 20 --others 30 --log results/trust/soak.log
	rm -f results/trust/commands.log
	OMP_NUM_THREADS=1 $(BIN)/python tools/soak_commands.py --kills 100 --log results/trust/commands.log
	$(BIN)/python tools/trust_page.py

dist: $(VENV)/.dev  ## wheel and sdist; the wheel is tried in a clean environment without this folder
	rm -rf dist
	$(BIN)/python -m build --outdir dist
	tools/try_wheel.sh dist/*.whl

lint: $(VENV)/.dev  ## formatting, lint and types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

format: $(VENV)/.dev  ## rewrite the code in the house format
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(VENV)/.dev  ## side-by-side timings, as JSON under benchmarks/results
	for script in $(filter-out benchmarks/table.py,$(sort $(wildcard benchmarks/[a-z]*.py))); do $(BIN)/python $$script || exit 1; done
	$(BIN)/python benchmarks/table.py --into docs/benchmarks.md
	$(BIN)/python benchmarks/table.py --into docs/cost.md

docs: $(VENV)/.dev  ## build the documentation and run its notebooks; a warning is an error
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs docs/_build/html
	@echo "docs/_build/html/index.html"

clean:  ## remove what the other targets made
	rm -rf $(VENV) docs/_build demo dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
