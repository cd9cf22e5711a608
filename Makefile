# On a fresh machine with Python 3.11 or newer and a C compiler, `make run` and `make test` do everything.

# The Python that makes the environment: PYTHON=..., or else the first of these that is new enough.
CANDIDATES := $(if $(PYTHON),$(PYTHON),python3 python3.14 python3.13 python3.12 python3.11)

# What is set up and tested here is the compiled build; with 0 both go on without a C compiler.
ZENSPARK_REQUIRE_COMPILED ?= 1
export ZENSPARK_REQUIRE_COMPILED

# Bytecode is kept also where the environment says otherwise: thousands of tests and their child processes import the same modules.
unexport PYTHONDONTWRITEBYTECODE

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
# More processes than cores, because tests beside other nodes mostly wait for them; one that is done takes over tests of another.
WORKERS := 4
SUITE := pytest -m "not (spark or browser or soak or nightly)"
PYTEST := $(SUITE) -n $(WORKERS) --dist worksteal
# One process per core: unit tests that wait are marked slow. Each process collects all tests, so more would cost more.
UNIT := pytest -m "not (slow or spark or browser or soak or nightly)" -n 2 --dist worksteal -o faulthandler_timeout=0
SPARK := pytest -m "spark and not (soak or nightly)"
# What is too long for every change: more kills, seeds, rows and machines.
NIGHTLY := pytest -m nightly -n 2 --dist worksteal
# Two processes have the tests that share a Spark, the third those that start their own; load is measured alone.
SPARK_TESTS := $(SPARK) -n 3 --dist loadgroup tests/spark tests/world --deselect tests/world/test_soak.py
LOAD_TEST := $(SPARK) tests/world/test_soak.py
BROWSER := pytest -m browser tests/browser
PURE := ZENSPARK_PURE=1 ZENSPARK_REQUIRE_COMPILED=0

CODE := $(wildcard src tests tools bench fuzz)
CORE := clock errors key wire router transport capture arrow
CORE_TESTS := $(wildcard $(CORE:%=tests/unit/%) tests/unit/test_*.py tests/property tests/vectors tests/conformance)
# Tests that run in both builds: of compiled modules, and of what is made of them. The fuzzer runs both builds by itself.
BOTH_BUILDS := $(wildcard $(addprefix tests/unit/,arrow key transport wire types/test_sample.py types/test_zbytes.py \
  api/test_publisher.py engine/test_publisher.py handlers/test_callback.py handlers/test_channel.py net/loop/test_busy_poll.py test_*.py) tests/vectors \
  $(addprefix tests/property/test_,codec.py columns.py fast_paths.py forwarding.py key.py))
CORE_SOURCES = $(subst $() $(),$(,),$(strip $(foreach name,$(CORE),src/zenspark/$(name).py src/zenspark/$(name)/*)))
OTHER_TESTS := $(filter-out $(CORE_TESTS) $(addprefix tests/,unit spark world browser typing) %/__pycache__,$(patsubst %/,%,$(wildcard tests/unit/*/ tests/*/)))
# Percent of lines and branches that all tests without Spark reach, interpreted: at most one less than measured.
COVERAGE_FLOOR := 96
# It interrupts itself 300 times: an interrupt within the lock of coverage's own data would leave that locked for good.
NOT_MEASURED := tests/unit/net/io/test_writer.py::test_blocked_put_can_be_interrupted_and_releases_the_lock
ASAN_TESTS := $(wildcard tests/unit/wire tests/unit/key tests/property)

, := ,

# Stamps: each is younger than everything its step reads.
CREATED := $(VENV)/.created
INSTALLED := $(VENV)/.installed
TOOLS := $(VENV)/.tools
LINKED := $(VENV)/.linked
COMPILED := build/.compiled
PAGE := build/.page
CLASSES := build/spark-classes.jsa
REWRITTEN := build/.rewritten

.PHONY: help
help: ## list the targets (make alone does this)
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

# --- to use it ------------------------------------------------------------------------------------

.PHONY: run
# Ports are those of the command line: programs put PORT into their environment for other purposes.
run: DEMO = $(BIN)/zenspark demo --lake build/lake \
  $(if $(findstring command,$(origin PORT)),--listen tcp/127.0.0.1:$(PORT)) $(if $(findstring command,$(origin HTTP)),--http 127.0.0.1:$(HTTP))
run: $(COMPILED) $(PAGE) ## the demo with its page, until Ctrl-C; where the output is no terminal for 45 s: make run [SECONDS=45] [PORT=7447] [HTTP=8000]
	@if [ -t 1 ] && [ -z "$(SECONDS)" ]; then exec $(DEMO); else exec $(DEMO) --for $(or $(SECONDS),45); fi

.PHONY: test
test: ## all tests that take minutes, compiled, then those of compiled modules again, interpreted
	@$(MAKE) --no-print-directory --jobs 2 setup chromium
	@$(MAKE) --no-print-directory --jobs 2 $(CLASSES) $(REWRITTEN)
	$(BIN)/python -m $(PYTEST)
	$(BIN)/python -m $(SPARK_TESTS)
	$(BIN)/python -m $(LOAD_TEST)
	@$(MAKE) --no-print-directory --jobs 2 --output-sync=target test-browser test-interpreted

# The browser leaves processors idle: these two run side by side.
.PHONY: test-browser
test-browser:
	$(BIN)/python -m $(BROWSER)

.PHONY: test-interpreted
test-interpreted:
	$(PURE) $(BIN)/python -m $(PYTEST) $(BOTH_BUILDS)

# --- the environment ------------------------------------------------------------------------------

.PHONY: setup
setup: $(COMPILED) $(TOOLS) $(PAGE) ## make .venv from requirements-dev.lock, with zenspark in it, compiled
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
	@echo "setup: packages that zenspark needs (500 MB to download, 1.2 GB in $(VENV))"
	@$(BIN)/python tools/install_locked.py requirements.lock
	@touch $@

# What tests and checks need, too: not for those who only run it.
$(TOOLS): requirements-dev.lock | $(LINKED)
	@echo "setup: packages that tests and checks need"
	@$(BIN)/python tools/install_locked.py requirements-dev.lock
	@touch $@

# Linked without compiling: the next step does that, and only for what changed.
$(LINKED): $(INSTALLED) pyproject.toml setup.py
	@echo "setup: zenspark"
	@ZENSPARK_PURE=1 $(PIP) install --no-deps --no-build-isolation -e .
	@touch $@

$(COMPILED): $(LINKED) $(foreach ext,py pxd,$(wildcard src/zenspark/*/*.$(ext) src/zenspark/*/*/*.$(ext)))
	@echo "build: compiled modules"
	@mkdir -p build
	@$(BIN)/python setup.py --quiet build_ext --inplace
	@touch $@

# The page: with the Node of the machine, or else one from PyPI.
PAGE_PACKAGES := page/node_modules/.package-lock.json
PAGE_SOURCES := $(wildcard page/*.html page/*.ts page/public/* page/src/*.* page/src/*/*.*)

.PHONY: page
page: $(PAGE) ## build the page into the package: npm packages of page/package-lock.json, then Vite
	@:

$(PAGE_PACKAGES): page/package.json page/package-lock.json | $(LINKED)
	@echo "setup: npm packages of the page"
	@$(BIN)/python tools/build_page.py install
	@touch $@

$(PAGE): $(PAGE_PACKAGES) $(PAGE_SOURCES)
	@echo "build: page"
	@mkdir -p build
	@$(BIN)/python tools/build_page.py build
	@touch $@

.PHONY: page-check
page-check: $(PAGE) ## types, lint and unit tests of the page
	$(BIN)/python tools/build_page.py check test

.PHONY: classes
classes: $(CLASSES) ## write the archive of Java classes with which the Spark of tests starts in half of the time
	@:

$(CLASSES): requirements-dev.lock | setup
	@echo "build: archive of Java classes"
	@$(BIN)/python -m tests.spark.write_class_archive

# Pytest keeps rewritten tests as bytecode: written by one process here, or else by each that runs tests. What fails is left to these.
$(REWRITTEN): | setup
	@echo "build: bytecode of the tests"
	@$(BIN)/python -m pytest --collect-only --quiet tests >/dev/null || true
	@touch $@

# Chromium of the system's packages, where it is absent and can be installed; the tests say so where it cannot.
.PHONY: chromium
chromium:
	@command -v chromium chromium-browser google-chrome >/dev/null || { \
	  echo "setup: chromium"; \
	  apt-get install -y --no-install-recommends chromium >/dev/null 2>&1 || \
	  { apt-get update && apt-get install -y --no-install-recommends chromium; } >/dev/null 2>&1 || \
	  echo "setup: chromium cannot be installed here: the browser tests are skipped"; }

.PHONY: browser
browser: setup chromium classes ## only the tests in a browser: every view of the page with a live fleet behind it
	$(BIN)/python -m $(BROWSER)

.PHONY: screenshots
screenshots: setup chromium ## write the pictures of the page into docs/images
	$(BIN)/python -m tests.browser.screenshots

LOCK = $(BIN)/python -m uv pip compile pyproject.toml --extra demo --group build \
  --universal --python-version 3.11 --generate-hashes --no-annotate --no-header --quiet

.PHONY: lock
lock: | $(INSTALLED) ## write both lock files anew: the newest versions that pyproject.toml allows
	@$(LOCK) --group dev --output-file requirements-dev.lock --upgrade
	@$(LOCK) --constraint requirements-dev.lock --output-file requirements.lock --upgrade

.PHONY: clean
clean: ## remove what was built, and caches; .venv and what the demo recorded (build/lake) stay
	rm -rf $(filter-out build/lake,$(wildcard build/* build/.[!.]*)) dist src/zenspark/web/static page/node_modules src/*.egg-info .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find src -name '*.so' -delete
	find $(CODE) -name __pycache__ -prune -exec rm -rf {} +

# --- to change it ---------------------------------------------------------------------------------

.PHONY: check
check: setup ## format, lint, types, import contracts, vocabulary, test map, fresh codec, conformance rows
	@$(MAKE) --no-print-directory --jobs 2 check-types check-rest

.PHONY: check-types
check-types: setup
	$(BIN)/mypy $(CODE)
	$(BIN)/mypy --config-file tests/typing/mypy.ini tests/typing

.PHONY: check-rest
check-rest: setup
	$(BIN)/ruff format --check setup.py $(CODE)
	$(BIN)/ruff check setup.py $(CODE)
	$(BIN)/python tools/build_page.py check test
	$(BIN)/basedpyright --project tests/typing
	$(BIN)/lint-imports
	$(BIN)/python tools/check_tests.py
	$(BIN)/python -m tools.check_words
	$(BIN)/python -m tools.render_map --check
	$(BIN)/python tools/generate_codec.py --check
	$(BIN)/python -m tools.generate_configuration --check
	$(BIN)/python -m tools.generate_commands --check
	$(BIN)/python -m tools.check_conformance
	$(BIN)/python -m tools.render_conformance --check
	$(BIN)/python -m tools.mutate_conformance --sample 12

.PHONY: codec
codec: $(LINKED) ## write src/zenspark/wire/codec.py from the declarations
	$(BIN)/python tools/generate_codec.py

.PHONY: configuration
configuration: $(LINKED) ## write the table of keys in docs/configuration.md from the declarations
	$(BIN)/python -m tools.generate_configuration

.PHONY: commands
commands: $(LINKED) ## write the commands and exit codes in docs/cli.md from the argument parsers
	$(BIN)/python -m tools.generate_commands

.PHONY: map
map: $(LINKED) ## write the map of the packages in CONTRIBUTING.md from their docstrings
	$(BIN)/python -m tools.render_map

.PHONY: conformance
conformance: $(LINKED) ## write docs/conformance.md from the rows in tests/conformance
	$(BIN)/python -m tools.render_conformance

.PHONY: mutations
mutations: setup ## violate every conformance row, or change code at random: make mutations [RANDOM=1000 SEED=1] [SECONDS=600]
	$(BIN)/python -m $(if $(RANDOM),tools.mutate_random --count $(RANDOM) --seed $(or $(SEED),1),tools.mutate_conformance) \
	  $(if $(SECONDS),--seconds $(SECONDS))

.PHONY: unit
unit: setup $(REWRITTEN) ## the unit tests that take less than a minute together: no other implementation, no Spark
	$(BIN)/python -m $(UNIT) tests/unit

.PHONY: test-pure
test-pure: setup ## all tests of the core, interpreted
	$(PURE) $(BIN)/python -m $(PYTEST) $(CORE_TESTS)

.PHONY: spark
spark: setup classes ## only the tests that start Spark
	$(BIN)/python -m $(SPARK_TESTS)
	$(BIN)/python -m $(LOAD_TEST)

.PHONY: nightly
nightly: setup classes ## the tests that are too long for every change: a cluster, S3 that fails, kills, more seeds and rows, two minutes of load
	$(BIN)/python -m $(NIGHTLY)
	ZENSPARK_SOAK_SECONDS=120 $(BIN)/python -m $(LOAD_TEST)

.PHONY: crashes
crashes: setup classes ## kill recorder, driver and executors twenty times each; about a quarter of an hour
	ZENSPARK_CRASHES=20 $(BIN)/python -m pytest -m spark tests/spark/test_crashes.py

.PHONY: world
world: setup classes ## traffic, crashes and foreign tools drawn from seeds, for an hour: make world [SECONDS=3600] [SEED=3]
	ZENSPARK_WORLD_SECONDS=$(or $(SECONDS),3600) ZENSPARK_WORLD_SEED=$(or $(SEED),3) \
	  $(BIN)/python -m pytest -m "spark and not soak" -s -o faulthandler_timeout=0 tests/world --deselect tests/world/test_soak.py

.PHONY: soak
soak: soak-network soak-pipeline ## both of these, one after the other

.PHONY: soak-network
soak-network: setup ## a router with a hundred clients that come and go, for ten minutes: make soak-network [SECONDS=600]
	$(BIN)/python -m tests.hostile.soak --seconds $(or $(SECONDS),600)

.PHONY: soak-pipeline
soak-pipeline: setup ## disk, memory, files and lag under load, for half an hour: make soak-pipeline [SECONDS=1800] [RATE=5000]
	$(BIN)/python -m tests.world.soak --seconds $(or $(SECONDS),1800) --rate $(or $(RATE),5000)

.PHONY: hostile
hostile: setup ## hostile messages of every kind against a router: make hostile [MESSAGES=1000000] [SEED=1]
	ZENSPARK_HOSTILE_MESSAGES=$(or $(MESSAGES),1000000) ZENSPARK_HOSTILE_SEED=$(or $(SEED),1) \
	  $(BIN)/python -m pytest -s -o faulthandler_timeout=0 tests/hostile/test_messages.py

.PHONY: networks
networks: setup ## random networks with eclipse-zenoh nodes, for an hour: make networks [SECONDS=3600] [SEED=1] [SCENARIOS=500]
	$(BIN)/python -m tests.networks.search --seconds $(or $(SECONDS),3600) --seed $(or $(SEED),1) \
	  --scenarios $(or $(SCENARIOS),500)

.PHONY: topologies
topologies: setup ## links made by gossip in every topology of a few nodes, beside eclipse-zenoh: make topologies [NODES=5]
	$(BIN)/python -m pytest -n 0 -m soak -o faulthandler_timeout=0 tests/interop/test_gossip_links.py
	$(BIN)/python -m tests.networks.topologies --nodes $(or $(NODES),5)

.PHONY: coverage
coverage: setup ## branch coverage: 100 % of the core by its own tests, and a floor for everything by all tests without Spark
	@rm -rf build/coverage && mkdir -p build/coverage
	$(PURE) $(BIN)/coverage run -m $(PYTEST) $(CORE_TESTS)
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report --include '$(CORE_SOURCES)' --fail-under 100
	$(PURE) $(BIN)/coverage run -m $(PYTEST) $(OTHER_TESTS) --deselect $(NOT_MEASURED)
	$(BIN)/coverage combine --quiet --append
	$(BIN)/coverage html --quiet --directory build/coverage/html
	$(BIN)/coverage report --fail-under $(COVERAGE_FLOOR)

# In copies of the tree, so that the ordinary build stays as it is: $(call sanitized,directory,sanitizers)
define sanitized
@mkdir -p build/$(1) && find build/$(1) -name '*.py' -delete
@tar --exclude='*.so' -cf - src fuzz setup.py pyproject.toml README.md LICENSE | tar -xf - -C build/$(1)
@echo "build: compiled modules with the sanitizers $(2)"
@cd build/$(1) && ZENSPARK_SANITIZE=$(2) ../../$(BIN)/python setup.py --quiet build_ext --inplace
endef
LIBASAN = $$(gcc -print-file-name=libasan.so)
WITH_ASAN = LD_PRELOAD="$(LIBASAN)" ASAN_OPTIONS=detect_leaks=0:quarantine_size_mb=64 PYTHONMALLOC=malloc

.PHONY: asan
asan: setup ## the tests of wire and key, compiled with AddressSanitizer (gcc on Linux)
	$(call sanitized,asan,address)
	$(WITH_ASAN) PYTHONPATH=build/asan/src $(BIN)/python -m $(PYTEST) --capture=sys $(ASAN_TESTS)

.PHONY: ubsan
ubsan: setup ## the same tests, compiled with UndefinedBehaviorSanitizer
	$(call sanitized,ubsan,undefined)
	PYTHONPATH=build/ubsan/src $(BIN)/python -m $(PYTEST) --capture=sys $(ASAN_TESTS)

.PHONY: fuzz
fuzz: setup ## one fuzz target until stopped, with coverage and both sanitizers: make fuzz TARGET=decode [SECONDS=60]
	@test -f "fuzz/fuzz_$(TARGET).py" || { echo "fuzz: no target '$(TARGET)'; there are:" \
	  $(patsubst fuzz/fuzz_%.py,%,$(wildcard fuzz/fuzz_*.py)) >&2; exit 1; }
	$(call sanitized,fuzzing,coverage$(,)address$(,)undefined)
	@mkdir -p build/fuzz/$(TARGET)
	@gcc -DPRELOADED -shared -fPIC -O1 -o build/fuzzing/coverage.so fuzz/coverage.c
	cd build/fuzzing && LD_PRELOAD="$$PWD/coverage.so:$(LIBASAN)" PYTHONMALLOC=malloc \
	  ASAN_OPTIONS=detect_leaks=0:quarantine_size_mb=64:verify_asan_link_order=0 \
	  PYTHONPATH=src:. ../../$(BIN)/python -m fuzz.fuzz_$(TARGET) \
	  $(if $(SECONDS),-max_total_time=$(SECONDS)) -artifact_prefix=../fuzz/$(TARGET)- ../fuzz/$(TARGET) fuzz/corpus/$(TARGET)

.PHONY: corpus
corpus: setup ## put what fuzzing found and reaches something new into the corpus: make corpus TARGET=decode
	$(call sanitized,fuzzing,coverage$(,)address$(,)undefined)
	cd build/fuzzing && $(WITH_ASAN) PYTHONPATH=src:. ../../$(BIN)/python -m fuzz.minimise \
	  $(TARGET) ../../fuzz/corpus/$(TARGET) ../fuzz/$(TARGET)

.PHONY: bench
bench: setup ## every benchmark into build/bench; bench/compare.py compares two such directories
	@mkdir -p build/bench
	@for bench in $(patsubst bench/bench_%.py,%,$(wildcard bench/bench_*.py)); do \
	  echo "bench: $$bench"; PYTHONPATH=. $(BIN)/python bench/bench_$$bench.py --json build/bench/$$bench.json || exit 1; \
	done
