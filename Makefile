# `make demo` runs the main job, `make test` passes the tests; each creates what it needs.
PYTHON ?= python3.11
VENV := .venv
RUN := $(VENV)/bin/python
HOST ?= 127.0.0.1
PORT ?= 8000
MODEL ?= bundled

.PHONY: setup demo serve test check audit clients train-model bench-grammar

setup: $(VENV)/.installed

$(VENV)/.installed: pyproject.toml
	$(or $(shell command -v $(PYTHON)),python3) -m venv $(VENV)
	$(VENV)/bin/pip install --quiet --disable-pip-version-check -e .
	touch $@

$(VENV)/.installed-test: $(VENV)/.installed
	$(VENV)/bin/pip install --quiet --disable-pip-version-check -e ".[test]"
	touch $@

demo: setup
	@$(VENV)/bin/sluicegate demo

serve: setup
	$(VENV)/bin/sluicegate serve --model $(MODEL) --host $(HOST) --port $(PORT)

test: $(VENV)/.installed-test check
	$(RUN) -m pytest -n 2 --dist loadfile

check: $(VENV)/.installed-test
	$(VENV)/bin/pip check
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy

audit: $(VENV)/.installed
	$(VENV)/bin/pip install --quiet --disable-pip-version-check pip-audit
	$(VENV)/bin/pip-audit --skip-editable

# The clients that tests/clients drives and `make test` does not install, in an environment of their own.
clients: .venv-clients/.installed

.venv-clients/.installed: tests/clients/requirements.txt
	$(or $(shell command -v $(PYTHON)),python3) -m venv .venv-clients
	.venv-clients/bin/pip install --quiet --disable-pip-version-check -r tests/clients/requirements.txt
	touch $@

train-model: $(VENV)/.installed-test
	$(RUN) -m training.train

bench-grammar: $(VENV)/.installed-test
	$(RUN) -m benchmarks.masks --again
