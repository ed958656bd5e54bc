# Every target creates what it needs with python3 and pip alone.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
OLDEST ?= .venv-oldest
OLDEST_READY := $(OLDEST)/.ready

.PHONY: demo test lint audit oldest bench papers schemas docs clean

demo: $(READY)
	$(BIN)/python examples/demo.py

# Compiled once: hundreds of tests start processes, which would each do it where none may write.
test: $(READY) lint
	$(BIN)/python -m compileall -q dprelease
	$(BIN)/python -m pytest -n auto --dist loadfile -m "not audit"

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	PYTHONPATH=. $(BIN)/lint-imports

audit: $(READY) oldest
	HYPOTHESIS_PROFILE=audit $(BIN)/python -m pytest -n auto --dist loadfile --timeout 7200

# The tests of `make test`, with the oldest versions that pyproject.toml allows.
oldest: $(OLDEST_READY)
	$(OLDEST)/bin/python -m pytest -n auto --dist loadfile -m "not audit"

bench: $(READY)
	$(BIN)/python -m tests.benchmarks $(ARGS)

papers: $(READY)
	$(BIN)/python -m examples.papers.page out/papers

schemas: $(READY)
	$(BIN)/python -m dprelease.documents.json_schemas schemas/json

# The manual: out/docs/index.html. `make docs ARGS="-b linkcheck"` also asks other places for their pages.
docs: $(READY)
	$(BIN)/python -m sphinx --fail-on-warning --keep-going --quiet $(ARGS) docs out/docs

$(READY): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[dev]"
	touch $(READY)

$(OLDEST_READY): pyproject.toml tests/oldest.py $(READY)
	$(PYTHON) -m venv $(OLDEST)
	$(BIN)/python -m tests.oldest > $(OLDEST)/constraints.txt
	$(OLDEST)/bin/python -m pip install --quiet --disable-pip-version-check \
		--constraint $(OLDEST)/constraints.txt --editable ".[dev]"
	touch $(OLDEST_READY)

clean:
	rm -rf $(VENV) $(OLDEST) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
