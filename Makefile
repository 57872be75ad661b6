# Every target sets up .venv by itself on a machine with python3 (venv) and make, and reuses it afterwards.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
BENCH_READY := .venv/.bench-ready
PYTEST := $(BIN)/python -m pytest -n 2 --dist worksteal
# packages are compiled to bytecode when they are first imported, not all when they are installed: it must be kept then
unexport PYTHONDONTWRITEBYTECODE

.PHONY: venv demo test test-all lint docs bench rates reproduce clean

venv: $(READY)

$(READY): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --no-compile --disable-pip-version-check -c constraints.txt -e ".[test,plot,progress,cli]"
	touch $@

$(BENCH_READY): $(READY)
	$(BIN)/python -m pip install --quiet --no-compile --disable-pip-version-check -c constraints.txt -e ".[torch]"
	touch $@

demo: $(READY)
	$(BIN)/xrisk demo

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# types are checked while the tests run, and reported if they are wrong
test: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	@$(BIN)/mypy > .venv/types.log 2>&1 & types=$$!; \
	$(PYTEST) -m "not slow"; tests=$$?; \
	wait $$types || { cat .venv/types.log; exit 1; }; \
	exit $$tests

test-all: lint
	$(PYTEST) --hypothesis-profile=thorough

# what is written from the code; tests compare it with what this writes
docs: $(READY)
	$(BIN)/xrisk methods --markdown > docs/methods.md
	$(BIN)/python docs/inventory.py
	$(BIN)/python -c "from xrisk.solvers import catalogue; print(catalogue.stub(), end='')" > src/xrisk/solvers/__init__.pyi

bench: $(BENCH_READY)
	$(BIN)/python benchmarks/speed.py
	$(BIN)/python benchmarks/finite_sum.py
	$(BIN)/python benchmarks/metrics.py
	$(BIN)/python benchmarks/auc.py
	$(BIN)/python benchmarks/dro.py

rates: $(READY)
	$(BIN)/python benchmarks/rates.py

reproduce: $(READY)
	$(BIN)/python benchmarks/race.py
	$(BIN)/python experiments/svrpda/study.py
	$(BIN)/python experiments/staco/study.py
	$(BIN)/python experiments/staco/tables.py
	$(BIN)/python experiments/alexr/study.py
	$(BIN)/python experiments/scdro/tables.py && $(BIN)/python experiments/scdro/study.py

clean:
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache
