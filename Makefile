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

# The clients that tests/clients drives and `make test` does not install, in environments of their own: one for each set whose
# newest versions want the same openai. In one environment pip would take old versions of all, after half an hour.
clients: .venv-clients/.installed .venv-clients-instructor/.installed .venv-clients-litellm/.installed

.venv-%/.installed: tests/clients/requirements-%.txt
	$(or $(shell command -v $(PYTHON)),python3) -m venv .venv-$*
	.venv-$*/bin/pip install --quiet --disable-pip-version-check --upgrade pip
	.venv-$*/bin/pip install --quiet --disable-pip-version-check -r $<
	touch $@

train-model: $(VENV)/.installed-test
	$(RUN) -m training.train

bench-grammar: $(VENV)/.installed-test
	$(RUN) -m benchmarks.masks --again
