# Every target makes .venv and installs what it needs; a bare Debian with Python 3.11 or newer is enough.
PYTHON ?= python3
# Processes of the test run; a file's tests stay in one of them. `make test JOBS=1` shows them one by one.
# PYTEST adds arguments: make test PYTEST="-k registry". COVER=1 prints which lines were run.
JOBS ?= 2
SLIPCOVER := -m slipcover --source src/dovetail --skip-covered
VENV := .venv
BIN := $(VENV)/bin
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: demo test test-qnn test-aimet test-rknn check docs bench fuzz fuzz-coverage mutants torture soak dist smoke
.PHONY: runner env env-qnn env-aimet env-rknn clean

env: $(VENV)/.installed-run

demo: $(VENV)/.installed-run
	$(BIN)/dovetail demo --out dovetail-out

test: $(VENV)/.installed-dev
	$(BIN)/python $(if $(COVER),$(SLIPCOVER)) -m pytest $(if $(filter-out 1,$(JOBS)),-n $(JOBS) --dist loadfile) $(PYTEST)

# Qualcomm's plug-in and its emulator, in an environment of its own that looks into the first one: with it there, every
# test that goes through all backends would wait for the emulator.
env-qnn: .venv-qnn/.installed

test-qnn: .venv-qnn/.installed
	.venv-qnn/bin/python -m pytest tests/backends/qnn tests/contract/test_qnn.py

.venv-qnn/.installed: $(VENV)/.installed-dev
	$(call beside,.venv-qnn)
	.venv-qnn/bin/python -m pip install -q --no-deps -c constraints.txt onnxruntime-qnn
	@touch $@

# AIMET and RKNN Toolkit 2 read what is exported for them, each in an environment of its own (1.5 and 1.2 GB, with PyTorch):
# AIMET's looks into the first one, the toolkit wants an old numpy.
env-aimet: .venv-aimet/.installed

env-rknn: .venv-rknn/.installed

test-aimet: env-aimet
	DOVETAIL_REQUIRE=aimet-onnx .venv-aimet/bin/python -m pytest tests/formats/others/test_aimet.py

test-rknn: env-rknn $(VENV)/.installed-dev
	DOVETAIL_REQUIRE=rknn DOVETAIL_RKNN_PYTHON="$(CURDIR)/.venv-rknn/bin/python" $(BIN)/python -m pytest tests/formats/others/test_rknn.py

.venv-aimet/.installed: $(VENV)/.installed-dev .ci/aimet.txt
	$(call beside,.venv-aimet)
	.venv-aimet/bin/python -m pip install -q -r .ci/aimet.txt
	@touch $@

.venv-rknn/.installed: .ci/rknn.txt
	@rm -rf .venv-rknn
	$(PYTHON) -m venv .venv-rknn
	.venv-rknn/bin/python -m pip install -q --no-deps -r .ci/rknn.txt
	@touch $@

# An environment that looks into the first one.
define beside
@rm -rf $(1)
$(BIN)/python -m venv $(1)
@$(BIN)/python -c 'import site; print("import site; site.addsitedir(%r)" % site.getsitepackages()[0])' > \
	"$$($(1)/bin/python -c 'import site; print(site.getsitepackages()[0])')/dovetail.pth"
endef

check: $(VENV)/.installed-dev
	$(BIN)/ruff check src tests benchmarks examples docs
	$(BIN)/ruff format --check src tests benchmarks examples docs
	$(BIN)/mypy
	$(BIN)/mypy --config-file tests/mypy.ini
	$(BIN)/lint-imports --config pyproject.toml

# The pages of docs/ as a site, in build/docs: a warning or a dead link among them is an error.
docs: $(VENV)/.installed-dev
	$(BIN)/python -m sphinx -W --keep-going -q -b dirhtml docs build/docs
	@echo "build/docs/index.html"

bench: $(VENV)/.installed-bench
	$(BIN)/python benchmarks/run_all.py

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Dovetail needs Python 3.11 or newer: make PYTHON=/path/to/python3.11 $(MAKECMDGOALS)"; exit 2; }
	@$(PYTHON) -m venv $(VENV) || \
		{ echo "The venv module is missing. On Debian: apt-get install python3-venv"; rm -rf $(VENV); exit 2; }

$(VENV)/.installed-run: $(BIN)/python pyproject.toml constraints.txt
	$(BIN)/python -m pip install -q -c constraints.txt -e .
	@touch $@

$(VENV)/.installed-dev: $(VENV)/.installed-run
	$(BIN)/python -m pip install -q -c constraints.txt -e '.[dev]'
	@touch $@

$(VENV)/.installed-bench: $(VENV)/.installed-dev
	$(BIN)/python -m pip install -q -c constraints.txt -e '.[bench]'
	@touch $@

$(VENV)/.installed-release: $(VENV)/.installed-run
	$(BIN)/python -m pip install -q -c constraints.txt -e '.[release]'
	@touch $@

# The wheel of the host and, from the same sources, that of boards (dovetail-runtime), with a bill of materials each.
dist: $(VENV)/.installed-release
	$(BIN)/python -m pip wheel -q --no-deps -w dist .
	$(BIN)/python -m dovetail.kit dist
	$(BIN)/python -m dovetail.kit.bill dist

# Both wheels in empty environments, and what users do first: make smoke PYTHONS="python3.11 python3.12 python3.13"
PYTHONS ?= $(PYTHON)
smoke: dist
	$(BIN)/python tests/release.py dist $(PYTHONS)

# dovetail-run, for boards without Python: make runner BOARD=aarch64 (or armhf) LIBRARIES=FOLDER (docs/how-to/boards.md).
runner:
	cmake -S native/run -B build/run/$(or $(BOARD),here) $(if $(LIBRARIES),-DDOVETAIL_LIBRARIES=$(abspath $(LIBRARIES))) \
		$(if $(BOARD),-DCMAKE_TOOLCHAIN_FILE=$(CURDIR)/native/run/toolchains/$(BOARD).cmake)
	cmake --build build/run/$(or $(BOARD),here)
	@echo "build/run/$(or $(BOARD),here)/dovetail-run"

fuzz: $(VENV)/.installed-dev
	$(BIN)/python benchmarks/fuzz_importers.py --count 10000

# Every parser of bytes from elsewhere, guided by coverage, from corpora of our own; what was found stays in build/fuzz.
# One target or all: make fuzz-coverage TARGETS="plans requests" SECONDS=60 ARGS="--seed 7 --jobs 2"; --list names them.
SECONDS ?= 600
fuzz-coverage: $(VENV)/.installed-dev
	$(BIN)/python benchmarks/coverage_fuzz.py $(TARGETS) --seconds $(SECONDS) $(ARGS)

# Small changes to the core's code, each run against the tests that reach it: which ones does no test notice? Seeded; goes
# on where it was after Ctrl-C. `make mutants ARGS=--page` writes docs/reference/tests.md.
COUNT ?= 300
SEED ?= 1
mutants: $(VENV)/.installed-dev
	$(BIN)/python benchmarks/mutants.py --count $(COUNT) --seed $(SEED) $(ARGS)

# Commands killed at random, bytes flipped, files taken away, a full disk, a clock that jumps, too little memory
# (docs/reference/reliability.md). A new seed each time, printed first. With ARGS="--seed 7 --json FILE" it goes on where it was.
KILLS ?= 200
FLIPS ?= 500
FUZZES ?= 500
torture: $(VENV)/.installed-dev
	$(BIN)/python benchmarks/torture.py --kills $(KILLS) --flips $(FLIPS) --fuzz $(FUZZES) $(ARGS)

# A server under right and wrong requests for a while: does its memory grow?
soak: $(VENV)/.installed-dev
	$(BIN)/python benchmarks/soak.py --seconds $(SECONDS) $(ARGS)

clean:
	rm -rf $(VENV) .venv-qnn .venv-aimet .venv-rknn dovetail-out build/mutants
