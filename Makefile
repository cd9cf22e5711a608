# On a fresh machine with Python 3.11 or newer and a C compiler, `make run` and `make test` do everything.

# The Python that makes the environment: PYTHON=..., or else the first of these that is new enough.
CANDIDATES := $(if $(PYTHON),$(PYTHON),python3 python3.14 python3.13 python3.12 python3.11)

# What is set up and tested here is the compiled build; with 0 both go on without a C compiler.
ZENSPARK_REQUIRE_COMPILED ?= 1
export ZENSPARK_REQUIRE_COMPILED

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
PYTEST := pytest -n 2 -m "not (spark or browser or soak)"
# One after the other: a second Spark on the same machine would make both slower.
SPARK := pytest -m "spark and not soak" tests/spark
PURE := ZENSPARK_PURE=1 ZENSPARK_REQUIRE_COMPILED=0

CODE := $(wildcard src tests tools bench fuzz)
CORE := clock errors key wire router transport capture arrow
CORE_TESTS := $(wildcard $(CORE:%=tests/unit/%) tests/unit/test_*.py tests/property tests/vectors tests/conformance)
ASAN_TESTS := $(wildcard tests/unit/wire tests/unit/key tests/property)

# Stamps: each is younger than everything its step reads.
CREATED := $(VENV)/.created
INSTALLED := $(VENV)/.installed
LINKED := $(VENV)/.linked
COMPILED := build/.compiled

.PHONY: help
help: ## list the targets (make alone does this)
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

# --- to use it ------------------------------------------------------------------------------------

.PHONY: run
run: setup ## Zenoh to tables and back with a simulated fleet, for a while: make run [SECONDS=45]
	@$(BIN)/zenspark up --demo --lake build/lake --for $(or $(SECONDS),45)

.PHONY: test
test: setup ## all tests that take minutes, compiled, then the tests of the core again, interpreted
	$(BIN)/python -m $(PYTEST)
	$(BIN)/python -m $(SPARK)
	$(PURE) $(BIN)/python -m $(PYTEST) $(CORE_TESTS)

# --- the environment ------------------------------------------------------------------------------

.PHONY: setup
setup: $(COMPILED) ## make .venv from requirements.lock, with zenspark in it, compiled
	@:

.PHONY: build
build: $(COMPILED) ## compile in place what changed
	@:

$(CREATED):
	@for python in $(CANDIDATES); do \
	  if $$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
	    echo "setup: $$($$python --version) in $(VENV)"; \
	    $$python -m venv --clear $(VENV) && touch $@; exit; \
	  fi; \
	done; \
	echo "setup: zenspark needs Python 3.11 or newer; tried: $(CANDIDATES). Name one: make setup PYTHON=..." >&2; exit 1

$(INSTALLED): requirements.lock | $(CREATED)
	@echo "setup: dependencies"
	@$(PIP) install --require-hashes -r requirements.lock
	@touch $@

# Linked without compiling: the next step does that, and only for what changed.
$(LINKED): $(INSTALLED) pyproject.toml setup.py
	@echo "setup: zenspark"
	@ZENSPARK_PURE=1 $(PIP) install --no-deps --no-build-isolation -e .
	@touch $@

$(COMPILED): $(LINKED) $(wildcard src/zenspark/*/*.py)
	@echo "build: compiled modules"
	@mkdir -p build
	@$(BIN)/python setup.py --quiet build_ext --inplace
	@touch $@

.PHONY: lock
lock: | $(CREATED) ## write requirements.lock anew: the newest versions that pyproject.toml allows
	@$(PIP) install uv
	@$(BIN)/python -m uv pip compile pyproject.toml --extra spark --group dev --group build --output-file requirements.lock \
	  --universal --python-version 3.11 --generate-hashes --upgrade --no-annotate --no-header --quiet

.PHONY: clean
clean: ## remove what was built, and caches; .venv stays
	rm -rf build dist src/*.egg-info .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find src -name '*.so' -delete
	find $(CODE) -name __pycache__ -prune -exec rm -rf {} +

# --- to change it ---------------------------------------------------------------------------------

.PHONY: check
check: setup ## format, lint, types, import contracts, test map, fresh codec
	$(BIN)/ruff format --check setup.py $(CODE)
	$(BIN)/ruff check setup.py $(CODE)
	$(BIN)/mypy $(CODE)
	$(BIN)/lint-imports
	$(BIN)/python tools/check_tests.py
	$(BIN)/python tools/generate_codec.py --check
	$(BIN)/python tools/check_conformance.py

.PHONY: codec
codec: $(LINKED) ## write src/zenspark/wire/codec.py from the declarations
	$(BIN)/python tools/generate_codec.py

.PHONY: test-pure
test-pure: setup ## only the second half of make test: the tests of the core, interpreted
	$(PURE) $(BIN)/python -m $(PYTEST) $(CORE_TESTS)

.PHONY: spark
spark: setup ## only the tests that start Spark
	$(BIN)/python -m $(SPARK)

.PHONY: crashes
crashes: setup ## kill recorder, driver and executors twenty times each; about a quarter of an hour
	ZENSPARK_CRASHES=20 $(BIN)/python -m $(SPARK)/test_crashes.py

.PHONY: coverage
coverage: setup ## branch coverage of the core by its own tests; less than 100 % fails
	@mkdir -p build/coverage
	$(PURE) $(BIN)/coverage run -m $(PYTEST) -n 0 $(CORE_TESTS)
	$(BIN)/coverage html --quiet --directory build/coverage/html
	$(BIN)/coverage report --fail-under 100

# In a copy of the tree, so that the ordinary build stays as it is.
.PHONY: asan
asan: setup ## the tests of wire and key, compiled with AddressSanitizer (gcc on Linux)
	@mkdir -p build/asan && rm -rf build/asan/src
	@cp -Rp src setup.py pyproject.toml README.md LICENSE build/asan && find build/asan/src -name '*.so' -delete
	cd build/asan && ZENSPARK_ASAN=1 ../../$(BIN)/python setup.py --quiet build_ext --inplace
	LD_PRELOAD="$$(gcc -print-file-name=libasan.so)" ASAN_OPTIONS=detect_leaks=0 PYTHONMALLOC=malloc \
	  PYTHONPATH=build/asan/src $(BIN)/python -m $(PYTEST) --capture=sys $(ASAN_TESTS)

.PHONY: fuzz
fuzz: setup ## one fuzz target until stopped: make fuzz TARGET=decode [SECONDS=60]
	@test -f "fuzz/fuzz_$(TARGET).py" || { echo "fuzz: no target '$(TARGET)'; there are:" \
	  $(patsubst fuzz/fuzz_%.py,%,$(wildcard fuzz/fuzz_*.py)) >&2; exit 1; }
	@mkdir -p build/fuzz/$(TARGET)
	$(BIN)/python fuzz/fuzz_$(TARGET).py $(if $(SECONDS),-max_total_time=$(SECONDS)) \
	  -artifact_prefix=build/fuzz/$(TARGET)- build/fuzz/$(TARGET) $(wildcard fuzz/corpus/$(TARGET))

.PHONY: bench
bench: setup ## every benchmark into build/bench; bench/compare.py compares two such directories
	@mkdir -p build/bench
	@for bench in $(patsubst bench/bench_%.py,%,$(wildcard bench/bench_*.py)); do \
	  echo "bench: $$bench"; PYTHONPATH=. $(BIN)/python bench/bench_$$bench.py --json build/bench/$$bench.json || exit 1; \
	done
