# Everything one runs here. Needs only make and Python 3.11 or newer; `make` alone lists the targets.
# Options: PYTHON=python3.12 (the interpreter to build on), ARGS="-k beam" (for pytest); scripts/setup_environment.py
# names those that choose the build of PyTorch.

VENV := .venv
CPP := src/dragoman/engines/native/cpp
# Those that are compiled for one kind of processor look the same as the plain ones.
TIDY = $(filter-out %_avx2.cpp %_avx512.cpp %_bf16.cpp,$(wildcard $(CPP)/*.cpp))
SETUP := scripts/setup_environment.sh scripts/setup_environment.py pyproject.toml constraints.txt

PYTEST := OMP_NUM_THREADS=1 $(VENV)/bin/python -m pytest --numprocesses auto --maxprocesses 4 --dist loadscope

.PHONY: help setup demo demo-sound test test-fast test-long lint format native native-check dist docs bench bench-peers clean

help:
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' Makefile

setup: $(VENV)/.installed-dev ## make the environment in .venv, with the tools for development

demo: $(VENV)/.installed ## train a small Chinese-English model and translate with it
	$(VENV)/bin/dragoman demo

demo-sound: $(VENV)/.installed-dev ## train a small model on spoken commands, and transcribe others with it
	$(VENV)/bin/dragoman demo --sound

test: $(VENV)/.installed-dev ## run the tests, but for the few that take longest
	$(PYTEST) -m "not long" $(ARGS)

test-long: $(VENV)/.installed-dev ## run the tests that take longest
	$(PYTEST) -m long $(ARGS)

test-fast: $(VENV)/.installed-dev ## run what takes little time of every file of tests
	$(PYTEST) -m "not slow" $(ARGS)

lint: $(VENV)/.installed-dev ## check style and types
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/pyrefly check
	@if command -v clang-format >/dev/null; then echo clang-format $(CPP); clang-format --dry-run --Werror $(CPP)/*.cpp $(CPP)/*.h; fi
	@if command -v clang-tidy >/dev/null; then echo clang-tidy $(CPP); \
		printf '%s\n' $(TIDY) | xargs -P 4 -I {} clang-tidy --quiet {} -- -std=c++17 2>/dev/null; fi

format: $(VENV)/.installed-dev ## put the code into the house style
	$(VENV)/bin/ruff check --fix .
	$(VENV)/bin/ruff format .
	@if command -v clang-format >/dev/null; then clang-format -i $(CPP)/*.cpp $(CPP)/*.h; fi

native: $(VENV)/.installed-dev ## compile the native engine again, after a change of its sources
	$(VENV)/bin/python -m dragoman.engines.native.build

native-check: $(VENV)/.installed-dev ## run the native engine's tests under the address and the thread sanitizer (g++)
	$(VENV)/bin/python scripts/native_check.py $(ARGS)

dist: $(VENV)/.installed-dev ## build the source distribution and the wheel for this platform into dist/
	$(VENV)/bin/python -m hatchling build

docs: $(VENV)/.installed-dev ## build the guide and the API reference into site/
	$(VENV)/bin/python scripts/build_site.py build/docs $(if $(wildcard runs/demo/model.safetensors),--model runs/demo)
	rm -rf site && mv build/docs/site site

bench: $(VENV)/.installed-dev ## run every benchmark; each prints JSON rows
	@set -e; for file in benchmarks/bench_*.py; do $(VENV)/bin/python $$file; done

bench-peers: $(VENV)/.installed-dev .venv-peers/.installed ## compare with CTranslate2, ONNX Runtime, OpenVINO, transformers, JoeyNMT
	$(VENV)/bin/python -m dragoman.engines.native.build
	@mkdir -p build/peers
	$(VENV)/bin/python benchmarks/peers_run.py --markdown build/peers/table.md $(ARGS) > build/peers/rows.jsonl

clean: ## remove the environment and every cache
	rm -rf $(VENV) .venv-peers .venv-serve build dist site .pytest_cache .ruff_cache .hypothesis .jaxtyping_cache
	find src tests scripts benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +

# The stamps make a second call install nothing; they are remade when one of $(SETUP) changes.
$(VENV)/.installed: $(SETUP)
	sh scripts/setup_environment.sh plot serve
	@touch $@

$(VENV)/.installed-dev: $(SETUP)
	sh scripts/setup_environment.sh dev
	@touch $(VENV)/.installed $@

.venv-peers/.installed: benchmarks/requirements-peers.txt benchmarks/requirements-peers-alone.txt
	$(VENV)/bin/python -m venv .venv-peers
	.venv-peers/bin/python -m pip install -r benchmarks/requirements-peers.txt
	.venv-peers/bin/python -m pip install --no-deps -r benchmarks/requirements-peers-alone.txt
	@touch $@
