# `make help` lists what there is.

PYTHON ?= python3
VENV := .venv
REFERENCE := .venv-reference
TORCH19 := .venv-torch19
BIN := $(VENV)/bin
# Random nets that test-reference puts to both sides.
NETS ?= 3000
SEED ?= 1
# Of these, refusals where Caffe2 comes out right: a gradient of zeros hides that it reads a wrong blob.
REFUSALS ?= 3
# Nets whose calls bench takes apart.
STAGES ?= chain:10000 resnet:10000 sparse:10000 do_wide:10000 while:10000 if_many:1000 if_shared:1000

.DEFAULT_GOAL := help
.PHONY: help build demo test test-rust test-python lint format test-reference test-suites test-torch19 test-matrix bench bench-count bench-report performance golden wheel sdist clean

help: ## this list
	@sed -n 's/^\([a-z0-9-]*\):.*## \(.*\)/  make \1	\2/p' $(MAKEFILE_LIST) | expand -t 26

# Builds in place, into the environment that is given; what the tools say is shown if they fail.
define develop
@echo "building ctrlgrad (a minute or so if it is the first time)"
@VIRTUAL_ENV="$(CURDIR)/$(1)" $(1)/bin/maturin develop --release >$(1)/build.log 2>&1 || \
	{ cat $(1)/build.log; exit 1; }
endef

build: $(VENV)/ready ## build the package in place, into an environment of its own (.venv)
	$(call develop,$(VENV))

demo: build ## generate two backward passes and show them
	@$(BIN)/python scripts/demo.py

test: test-rust test-python ## all tests that need no Caffe2

test-rust: ## the tests of the Rust core
	cargo test

test-python: build ## the tests of the package, golden cases among them
	$(BIN)/python -m pytest

lint: $(VENV)/linted build ## formatters, linters and type checkers (needs rustfmt and clippy)
	cargo fmt --check
	cargo clippy --all-targets -- -D warnings
	PYO3_PYTHON="$(CURDIR)/$(BIN)/python" cargo clippy --features python -- -D warnings
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy python
	$(BIN)/python -m mypy.stubtest --mypy-config-file pyproject.toml ctrlgrad._core

format: $(VENV)/linted ## format all sources
	cargo fmt
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

test-reference: $(REFERENCE)/ready ## everything, side by side with Caffe2 (makes a Python 3.9 with torch 1.10.2)
	$(call develop,$(REFERENCE))
	$(REFERENCE)/bin/python -m pytest --ignore tests/oracle
	$(REFERENCE)/bin/python -m pytest tests/oracle
	$(REFERENCE)/bin/python tests/suites/run.py --short
	$(REFERENCE)/bin/python scripts/record_golden.py --dry-run
	PYTHONPATH=tests/support $(REFERENCE)/bin/python -m tests.oracle.differential --nets $(NETS) --seed $(SEED) --refusals $(REFUSALS)

test-suites: $(REFERENCE)/ready ## all of Caffe2's own tests that ask for gradients, with ctrlgrad under them
	$(call develop,$(REFERENCE))
	$(REFERENCE)/bin/python tests/suites/run.py

test-torch19: $(TORCH19)/ready ## under the Caffe2 of torch 1.9.1: golden cases, some of its own tests
	$(call develop,$(TORCH19))
	$(TORCH19)/bin/python -m pytest tests/drop_in
	$(TORCH19)/bin/python tests/suites/run.py --short

# Where test-reference has made an environment with Caffe2, benches measure beside it.
define beside_caffe2
$(if $(wildcard $(REFERENCE)/ready),$(call develop,$(REFERENCE)))
endef
BESIDE = $(if $(wildcard $(REFERENCE)/ready),$(REFERENCE),$(VENV))/bin/python

bench: build ## what each stage of a call costs, and how fast all is, beside Caffe2 where test-reference has installed it; PLAN="chain:1000 ..." chooses
	cargo bench --quiet --bench stages -- $$($(BIN)/python benches/write_nets.py target/nets $(or $(PLAN),$(STAGES)))
	$(beside_caffe2)
	$(BESIDE) benches/speed.py $(PLAN)

bench-count: build ## instructions of a call, beside those recorded (needs valgrind); RECORD=1 records them
	$(BIN)/python benches/count.py $(if $(RECORD),--record)

bench-report: build ## all figures with their bars: speed, memory, growth (ten minutes beside Caffe2)
	$(beside_caffe2)
	$(BESIDE) benches/report.py --upb $(BIN)/python

performance: build ## measure as bench-report does, and write docs/performance.md and its picture
	$(beside_caffe2)
	$(BESIDE) benches/report.py --upb $(BIN)/python --json docs/performance.json
	$(BIN)/python scripts/make_performance.py

test-matrix: wheel ## the golden cases with each CPython and each protobuf, outside of this folder
	$(BIN)/python scripts/test_matrix.py "$$(ls -t dist/ctrlgrad-*.whl | head -1)"

golden: $(REFERENCE)/ready ## record right answers of ours where Caffe2 is wrong
	$(call develop,$(REFERENCE))
	$(REFERENCE)/bin/python scripts/record_golden.py

wheel: $(VENV)/ready ## a wheel for CPython 3.9 and later, in dist/
	$(BIN)/maturin build --release --quiet --out dist

sdist: $(VENV)/ready ## a source distribution, in dist/
	$(BIN)/maturin sdist --out dist

clean: ## remove all that was built, with the environments
	rm -rf target dist $(VENV) $(REFERENCE) $(TORCH19) .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find python tests scripts -name __pycache__ -prune -exec rm -rf {} +
	rm -f python/ctrlgrad/_core*.so

$(VENV)/ready: pyproject.toml scripts/make_venv
	@scripts/make_venv $(VENV) $(PYTHON) test
	@touch $@

$(VENV)/linted: $(VENV)/ready
	@scripts/make_venv $(VENV) $(PYTHON) lint
	@touch $@

$(REFERENCE)/ready: pyproject.toml scripts/make_venv scripts/find_python
	@python=$$(scripts/find_python 3.9) && scripts/make_venv $(REFERENCE) "$$python" reference
	@touch $@

$(TORCH19)/ready: pyproject.toml scripts/make_venv scripts/find_python
	@python=$$(scripts/find_python 3.9) && scripts/make_venv $(TORCH19) "$$python" torch19
	@touch $@
