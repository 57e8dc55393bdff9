# Two commands do everything: `make demo` and `make test`. Both make a virtual environment first.
PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
PIP = $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile
# Compiling every module of every package takes longer than compiling those that are imported, when they are.
INSTALL = $(PIP) --constraint constraints/cpu.txt --editable
# The pip that comes with Python 3.11 takes three times as long to find out what is to be installed.
QUICK = $(PIP) 'pip>=25.1'

# Where it is set, each of hundreds of processes would compile torch, transformers and Chroma for itself.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test quick fuzz milvus lowest endpoints check format docs schemas picture report-picture dist clean

# Compares dense search, BM25 and two fusions on the sample data, offline: the model's weights come as a package.
demo: $(VENV)/.demo
	HF_HUB_OFFLINE=1 $(BIN)/ragtrial run configs/hybrid.yaml
	$(BIN)/ragtrial report latest
	@echo "Next: $(BIN)/ragtrial compare"

# Three workers keep two cores busy: tests wait for processes and disks.
test: $(VENV)/.dev
	$(BIN)/python -m pytest -n 3 --dist loadfile --no-loadscope-reorder

# Without whole runs, pages, commands, public data and slow tests, and with fewer drawn examples: for after each change.
quick: $(VENV)/.dev
	RAGTRIAL_TEST_DATA= $(BIN)/python -m pytest -n 2 --dist loadfile --hypothesis-profile quick -m "not slow" tests/unit tests/contracts tests/oracles

# Ten minutes of damaged files for everything that reads them; what fails is left in tests/fuzz. Then 25 faults in each
# kind of file of workspaces and reports.
fuzz: $(VENV)/.dev
	FUZZ_SECONDS=600 $(BIN)/python -m pytest tests/system/test_fuzzed_readers.py tests/system/test_flipped_bytes.py

# The tests of stores against the Milvus 2.3.5 server, which has a package, in an environment of its own. It listens on
# all addresses: it runs in a network of its own, which has nothing but 127.0.0.1 (Linux).
milvus: $(VENV)/.dev
	test -x .milvus/bin/python || $(PYTHON) -m venv .milvus
	.milvus/bin/python -m pip install --quiet 'milvus==2.3.5'
	RAGTRIAL_MILVUS=.milvus/bin/python unshare --map-root-user --net sh -c 'ip link set lo up && \
	  $(BIN)/python -m pytest -k milvus tests/contracts/test_stores.py tests/unit/components/test_milvus_store.py'

# The lowest and the newest versions that are allowed, with every Python on this machine: installed, and the sample run.
lowest:
	HF_HUB_OFFLINE=1 $(PYTHON) tests/support/versions.py $(VERSIONS)

# How busy the client keeps an endpoint; real servers: Infinity (in an environment of its own) against its model.
endpoints: $(VENV)/.dev
	$(BIN)/python benchmarks/endpoints.py throughput
	HF_HUB_OFFLINE=1 $(BIN)/python benchmarks/endpoints.py server

check: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# The documentation site in site/, with the references of config keys and of Python written anew; fails for a broken link.
docs: $(VENV)/.dev
	$(BIN)/python docs/config_reference.py
	$(BIN)/python docs/api_reference.py
	$(BIN)/zensical build --strict --clean

# The JSON Schemas that editors use.
schemas: $(VENV)/.demo
	for name in config labels report; do $(BIN)/ragtrial schema $$name -o schemas/$$name.schema.json; done

# The picture in the README: the real output of the demo.
picture: $(VENV)/.demo
	HF_HUB_OFFLINE=1 $(BIN)/python docs/picture.py

# The pictures of docs/report-page.md, taken in the system's Chromium.
report-picture: $(VENV)/.dev
	HF_HUB_OFFLINE=1 $(BIN)/python docs/report_picture.py

# What is published, in dist/: the source distribution, this platform's wheel and one of Python alone, each installed in a
# new environment and tried.
dist: $(VENV)/.dev
	$(BIN)/python tests/support/distribution.py

NEEDED = pyproject.toml constraints/cpu.txt $(wildcard src/ragtrial/runs/compiled/*.[ch])

$(VENV)/.demo: $(NEEDED)
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing into $(VENV) (a few minutes the first time)"
	$(QUICK)
	$(INSTALL) '.[offline-model]'
	@touch $@

$(VENV)/.dev: $(NEEDED)
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing into $(VENV) (a few minutes the first time)"
	$(QUICK)
	$(INSTALL) '.[offline-model,code,docs,dev]'
	@touch $(VENV)/.demo $@

clean:
	rm -rf $(VENV) dist .ragtrial configs/.ragtrial .pytest_cache .mypy_cache .ruff_cache .hypothesis
