# `make demo` runs the main job, `make test` passes the tests; each creates what it needs.
PYTHON ?= python3.11
VENV := .venv
RUN := $(VENV)/bin/python
HOST ?= 127.0.0.1
PORT ?= 8000
MODEL ?= bundled
# Compiled when installed, as pip does with a wheel: where PYTHONDONTWRITEBYTECODE is set, each start would do it again.
PACKAGES := cache engine gateway grammar plugins safety sluicegate

.PHONY: setup demo serve compiled interpreted test test-thorough test-scale test-compiled coverage check audit mutants release-check clients train-model bench-grammar site

setup: $(VENV)/.installed

$(VENV)/.installed: pyproject.toml
	$(or $(shell command -v $(PYTHON)),python3) -m venv $(VENV)
	$(VENV)/bin/pip install --quiet --disable-pip-version-check -e .
	$(RUN) -m compileall -q $(PACKAGES)
	touch $@

$(VENV)/.installed-test: $(VENV)/.installed
	$(VENV)/bin/pip install --quiet --disable-pip-version-check -e ".[test]"
	touch $@

demo: setup
	@$(VENV)/bin/sluicegate demo

serve: setup
	$(VENV)/bin/sluicegate serve --model $(MODEL) --host $(HOST) --port $(PORT)

# The hot modules of the grammar as machine code, in this checkout: a token's step takes little more than half the time. Minutes,
# and a C compiler; as pip does with SLUICEGATE_COMPILE=1 for what it installs. What is edited afterwards is noticed.
compiled: $(VENV)/.installed-test
	$(RUN) -m tools.compile_in_place

interpreted: setup
	$(RUN) -m tools.compile_in_place --remove

# Twice two cores: a third of a test's time is waiting.
WORKERS ?= 4
# Percent of the lines of the six packages that the tests run. A floor: it may only rise.
COVERED := 90

# What fails beside others runs once more alone, and must pass then: which those were stands in the first run's summary.
# The loops are compiled beside the checks, on the other core and once: four workers that find none compile them four times.
test: $(VENV)/.installed-test
	$(VENV)/bin/sluicegate warm > /dev/null & $(MAKE) --no-print-directory check; checked=$$?; wait $$! && exit $$checked
	$(RUN) -m pytest -n $(WORKERS) --dist loadfile || $(RUN) -m pytest --last-failed --last-failed-no-failures none --maxfail 3

# What the tests show once, many times: laws of large numbers.
test-thorough: $(VENV)/.installed-test
	$(RUN) -m pytest -m thorough

# Several processes with PostgreSQL, Redis with Sentinel, nginx and Ray Serve, while load runs and things are killed; prints what
# was lost and what was charged twice. What is not installed is skipped, and said.
test-scale: $(VENV)/.installed-test .venv-ray/.installed
	$(RUN) -m pytest -m "scale or not scale" -rs tests/scale tests/gateway/stores tests/gateway/accounts/test_sharing.py

# Ray holds other packages to versions of its own.
.venv-ray/.installed: pyproject.toml
	$(or $(shell command -v $(PYTHON)),python3) -m venv .venv-ray
	.venv-ray/bin/pip install --quiet --disable-pip-version-check -e ".[ray,postgres]"
	touch $@

# The same, and which lines the tests pass through: by hand, as tracing doubles the time of some files.
coverage: $(VENV)/.installed-test
	$(RUN) -m pytest -n 2 --dist loadfile --cov --cov-report=term --cov-fail-under=$(COVERED)

# The tests of the grammar with its hot modules compiled, as in a wheel made with SLUICEGATE_COMPILE=1; needs a C compiler.
test-compiled: $(VENV)/.installed-test
	$(RUN) -m tools.compiled_check

check: $(VENV)/.installed-test
	$(VENV)/bin/pip check
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	@$(MAKE) --no-print-directory audit

# Known holes in what is installed. Fails where there is one; where the advisories cannot be asked it says so and passes,
# so that `make check` works offline. pip-audit has an environment of its own: it is no part of what it looks at.
AUDITED ?= $(shell $(RUN) -c "import sysconfig; print(sysconfig.get_path('purelib'))")
AUDIT := .venv-audit

audit: $(VENV)/.installed
	@if ! $(MAKE) --no-print-directory $(AUDIT)/.installed > /dev/null 2>&1; then \
		echo "audit skipped: pip-audit cannot be installed here"; exit 0; fi; \
	$(AUDIT)/bin/pip-audit --skip-editable --progress-spinner off --path "$(AUDITED)" > $(AUDIT)/found 2> $(AUDIT)/said; \
	status=$$?; cat $(AUDIT)/found; \
	if [ $$status -ne 0 ] && [ ! -s $(AUDIT)/found ]; then \
		echo "audit skipped: the advisories cannot be asked: $$(tail -n 1 $(AUDIT)/said)"; exit 0; fi; \
	if missed=$$(grep -c "could not be audited" $(AUDIT)/found); then \
		echo "audit incomplete: nothing is known here of the $$missed packages above"; else cat $(AUDIT)/said; fi; \
	exit $$status

$(AUDIT)/.installed:
	$(or $(shell command -v $(PYTHON)),python3) -m venv $(AUDIT)
	$(AUDIT)/bin/pip install --quiet --disable-pip-version-check pip-audit
	touch $@

# Changes that no test notices, drawn anew by SEED: by hand, and before a release.
SEED ?= 0
COUNT ?= 40

mutants: $(VENV)/.installed-test
	$(RUN) -m tests.mutants --seed $(SEED) --count $(COUNT)

# What a release would hold, built, installed where nothing else is, and run there. BORROW=1 takes the dependencies of $(VENV);
# COMPILED=1 makes the wheel of this platform.
release-check: $(VENV)/.installed
	$(RUN) -m tools.release_check $(if $(BORROW),--borrow) $(if $(COMPILED),--compiled) --keep dist

# The table of clients in docs/clients.md: each in an environment of its own below ~/.cache/sluicegate/clients, made once. Takes
# half an hour; ANEW=1 takes the newest versions.
clients: $(VENV)/.installed-test
	$(RUN) -m tests.clients.matrix $(if $(ANEW),--anew)

train-model: $(VENV)/.installed-test
	$(RUN) -m training.train

bench-grammar: $(VENV)/.installed-test
	$(RUN) -m benchmarks.masks --again

# The documents as pages for a browser, with reference made from the code: build/site/index.html.
site: $(VENV)/.installed-test
	$(RUN) -m tools.site.build
