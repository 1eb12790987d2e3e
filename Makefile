# Two commands do everything on a machine with Python 3.10+ and pip:
#   make demo    train on real data and write tables, plots and a model to demo/
#   make test    run the tests
# Both make .venv and install into it first. PYTHON chooses the interpreter.

PYTHON ?= python3
BIN := .venv/$(if $(filter Windows_NT,$(OS)),Scripts,bin)

# Benchmarks without data or a network, each of less than a minute.
BENCHMARKS := steps limit fkm prediction threads memory karnik_mendel c_accuracy robustness

.PHONY: demo test test-embedded bench lint format docs notebooks package test-lowest figures browser clean

# torch first and by itself: with the exact pin pip can take a build without CUDA, and nothing after it asks for another.
.venv/installed: pyproject.toml constraints.txt Makefile
	$(PYTHON) -c "import sys; sys.exit(sys.version_info < (3, 10) and 'deepfls needs Python 3.10 or newer: make PYTHON=python3.11 ...')"
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --constraint constraints.txt torch
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev,docs,examples,onnx,ray]'
	touch $@

demo: .venv/installed
	$(BIN)/deepfls demo

test: .venv/installed
	$(BIN)/python -m pytest -n auto --dist worksteal

# The exported C on an emulated Cortex-M. Installs Debian's compiler and emulator as root, and skips with a reason without.
test-embedded: .venv/installed
	sh benchmarks/cortex_m/install.sh
	$(BIN)/python -m pytest -rs tests/export/test_embedded.py
	if command -v qemu-system-arm >/dev/null; then $(BIN)/python benchmarks/embedded.py; fi

bench: .venv/installed
	for name in $(BENCHMARKS); do $(BIN)/python benchmarks/$$name.py --quick || exit 1; done

lint: .venv/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: .venv/installed
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# The documentation site, in site/: the examples run, and a broken link fails. Open site/index.html; no server is needed.
docs: .venv/installed
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet

# The notebooks, made from the examples and executed.
notebooks: .venv/installed
	$(BIN)/python docs/tools/notebooks.py

# The sdist and the wheel, in dist/: metadata, contents, and the wheel in a fresh environment.
package: .venv/installed
	rm -rf build/lib dist
	$(BIN)/python -m build --no-isolation
	$(BIN)/python .ci/package.py

# The tests with the lowest versions that pyproject.toml promises, in an environment of their own. torch is that of constraints.txt.
test-lowest:
	$(PYTHON) -m venv .venv-lowest
	.venv-lowest/bin/python .ci/lowest.py > .venv-lowest/lowest.txt
	.venv-lowest/bin/python -m pip install --quiet --constraint constraints.txt torch
	.venv-lowest/bin/python -m pip install --quiet --constraint .venv-lowest/lowest.txt --editable '.[dev,examples,onnx]'
	.venv-lowest/bin/python -m pytest -n auto --dist worksteal --ignore tests/docs -W default

figures: .venv/installed
	$(BIN)/python docs/figures/footprint.py
	$(BIN)/python docs/figures/training_time.py
	$(BIN)/python docs/figures/intervals.py
	$(BIN)/python docs/figures/explorer.py
	$(BIN)/python docs/figures/architecture.py

# Debian's chromium, for the tests of the report's page and of the site; where it cannot be installed they are skipped and say why.
browser:
	@command -v chromium >/dev/null || command -v chromium-browser >/dev/null || \
	{ command -v apt-get >/dev/null && test "$$(id -u)" = 0 && \
	  { apt-get install -y --no-install-recommends chromium >/dev/null 2>&1 || \
	    { apt-get update >/dev/null && apt-get install -y --no-install-recommends chromium >/dev/null; }; }; } || \
	echo "No chromium, and no root with apt-get to install it: the tests of the report's page and of the site will be skipped."

clean:
	rm -rf .venv .venv-lowest build dist demo site .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
	find . -name '*.egg-info' -type d -prune -exec rm -rf {} +
