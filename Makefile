# Everything runs in .venv, which each target sets up by itself the first time. Variables that may be given:
#   PYTHON=python3.12      the interpreter to build .venv with (3.11 or newer)
#   TORCH_INDEX_URL=...    a package index that carries CPU builds of torch, for machines without an NVIDIA GPU where
#                          pip would otherwise fetch the CUDA build of about 3 GB
#   ARGS="..."             more arguments for demo, serve, test and bench

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
PROTO_VENV := $(VENV)/proto
SUPPLY_VENV := $(VENV)/supply

.PHONY: help demo serve test lint format proto promise bench interop telephony browser deploy fleet operating drills lock sbom audit release clean
.DELETE_ON_ERROR:

help:
	@echo "make demo    speak a text as it is written, into out/demo.wav"
	@echo "make serve   run the service"
	@echo "make test    run the tests        make lint   check style, types, layers and licences"
	@echo "make proto   regenerate stubs     make bench  measure this machine"
	@echo "make browser play speech in a headless Chromium, and compare what is heard with what was sent"
	@echo "make interop drive the clients of others against the service"
	@echo "make deploy  build the container's image where no container engine runs, run it, and boot the systemd units"
	@echo "make fleet   put balancers, Ray Serve and Kubernetes' own checks in front of several units"
	@echo "make operating  cause each alert, and watch it with a Prometheus"
	@echo "make drills  break engines, disks, clocks and networks under a service, and see what is lost"
	@echo "make lock    write deploy/locks     make release  what is published, its bill of materials, its licences"
	@echo "make telephony  telephones and the packages of carriers against the service"

demo: $(VENV)/.run
	@$(BIN)/oscine demo $(ARGS)

serve: $(VENV)/.run
	@$(BIN)/oscine serve $(ARGS)

# A process for each core, up to four: more would be short of memory before they were short of work.
test: $(VENV)/.dev
	@$(BIN)/python -m pytest -n auto --maxprocesses 4 --dist worksteal $(ARGS)

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tools/licences.py
	$(BIN)/buf lint proto
	$(BIN)/buf breaking proto --against proto/promised.binpb

format: $(VENV)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# What clients are promised from now on: run it with a release, never to silence `make lint`.
promise: $(VENV)/.dev
	$(BIN)/buf build proto --path proto/oscine_proto/oscine/v1 --exclude-source-info -o proto/promised.binpb

bench: $(VENV)/.bench
	@$(BIN)/python -m bench $(or $(ARGS),first_packet)

# Each client in an environment of its own, in $(VENV)/interop. A whole run writes its table into the docs.
interop: $(VENV)/.bench
	@$(BIN)/python -m tests.interop.environments
	@$(BIN)/python -m pytest -n 0 -m interop tests/interop --write-table docs/interop.md $(ARGS)

telephony: $(VENV)/.dev
	@tools/prepare.sh telephony
	@$(BIN)/python -m tests.interop.environments pipecat carriers
	@$(BIN)/python -m pytest -n 0 -m telephony tests/service/telephony $(ARGS)

# Chromium comes from the system's packages. What is measured takes a quarter of an hour: python -m bench.browser
browser: $(VENV)/.dev
	@tools/prepare.sh chromium
	@$(BIN)/python -m pytest -n 0 -m browser tests/browser $(ARGS)

# As root. Whole, and recorded: python -m bench drills --record
drills: $(VENV)/.dev
	@tools/prepare.sh drills
	@$(BIN)/python -m pytest -n 0 -m drills tests/bench/test_drills.py $(ARGS)

# As root. ARGS='--target cuda' of tools/build_image.py is for GPUs, and takes longer.
deploy: $(VENV)/.dev
	@tools/prepare.sh deploy
	@tools/prepare.sh compose $(VENV)/deploy/compose
	@$(BIN)/python -m pytest -n 0 -m deploy tests/deploy $(ARGS)

# Balancers, Ray and schemas each in an environment of its own, in $(VENV)/fleet.
fleet: $(VENV)/.dev
	@tools/prepare.sh nginx $(VENV)/fleet/nginx
	@$(BIN)/python -m tests.fleet.environments
	@$(BIN)/python -m pytest -n 0 -m fleet tests/fleet $(ARGS)

# Prometheus comes from Debian's package, unpacked.
operating: $(VENV)/.dev
	@tools/prepare.sh prometheus $(VENV)/prometheus
	@$(BIN)/python -m pytest -n 0 -m operating tests/operating $(ARGS)

proto: $(PROTO_VENV)/.ready
	@PATH="$(CURDIR)/$(PROTO_VENV)/bin:$$PATH" $(PROTO_VENV)/bin/python tools/generate_stubs.py

# What each extra installs, to the byte. Run it with every change of a dependency.
lock: $(VENV)/.dev $(SUPPLY_VENV)/.ready
	@$(BIN)/python tools/lock.py $(SUPPLY_VENV)/bin/uv

# Of an environment that holds what the lock says and nothing else.
sbom: $(SUPPLY_VENV)/.ready $(VENV)/locked/.ready
	@mkdir -p out/release
	@$(SUPPLY_VENV)/bin/cyclonedx-py environment --pyproject pyproject.toml --output-reproducible \
		-o out/release/oscine.cdx.json $(VENV)/locked
	@$(VENV)/locked/bin/python tools/licences.py --list > out/release/licences.md
	@ls out/release/oscine.cdx.json out/release/licences.md

# Known holes in what the locks name. Strict: what could not be looked up is a failure, too.
audit: $(SUPPLY_VENV)/.ready
	@for lock in $(or $(LOCKS),run listen srtp traces japanese); do \
		echo "audit: $$lock"; \
		$(SUPPLY_VENV)/bin/pip-audit --strict --disable-pip --require-hashes -r deploy/locks/$$lock.txt || exit 1; \
	done

# What is published, in out/release; docs/releasing.md says how it is signed.
release: sbom
	@$(SUPPLY_VENV)/bin/python -m build --outdir out/release .
	@$(SUPPLY_VENV)/bin/python -m build --outdir out/release clients/python
	@cp deploy/locks/run.txt out/release/
	@cd out/release && sha256sum *.whl *.tar.gz *.json *.md *.txt > SHA256SUMS && cat SHA256SUMS

clean:
	rm -rf $(VENV) out dist .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis

$(VENV)/.python:
	@PYTHON="$(PYTHON)" tools/prepare.sh venv $(VENV)
	@touch $@

$(VENV)/.opus: $(VENV)/.python
	@PYTHON="$(BIN)/python" tools/prepare.sh opus
	@touch $@

$(VENV)/.torch: $(VENV)/.python tools/install_torch.py
	@$(BIN)/python tools/install_torch.py
	@touch $@

$(VENV)/.run: pyproject.toml $(VENV)/.torch $(VENV)/.opus
	@echo "python: installing oscine and what it runs on"
	@$(PIP) --use-pep517 --editable .
	@touch $@

$(VENV)/.dev: $(VENV)/.run
	@echo "python: installing what tests and checks need"
	@$(PIP) --use-pep517 --editable '.[dev]'
	@touch $@

$(VENV)/.bench: $(VENV)/.dev
	@echo "python: installing what the measurements listen with"
	@$(PIP) --use-pep517 --editable '.[bench]'
	@$(PIP) --no-deps Resemblyzer==0.1.4
	@touch $@

$(SUPPLY_VENV)/.ready: $(VENV)/.python
	@echo "supply: installing what reads and writes lists of packages"
	@$(BIN)/python -m venv $(SUPPLY_VENV)
	@$(SUPPLY_VENV)/bin/python -m pip install --quiet --disable-pip-version-check \
		uv==0.13.9 cyclonedx-bom==7.5.0 pip-audit==2.10.1 build==1.3.0
	@touch $@

$(VENV)/locked/.ready: $(VENV)/.python deploy/locks/run.txt pyproject.toml
	@echo "locked: installing what the lock says"
	@$(BIN)/python -m venv --clear $(VENV)/locked
	@$(VENV)/locked/bin/python tools/install_torch.py
	@$(VENV)/locked/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r deploy/locks/run.txt
	@$(VENV)/locked/bin/python -m pip install --quiet --disable-pip-version-check --no-deps .
	@touch $@

# Its own environment with fixed versions: stubs made by protobuf 6 tools run on protobuf 6 and 7.
$(PROTO_VENV)/.ready: $(VENV)/.python
	@echo "proto: installing the generators"
	@$(BIN)/python -m venv $(PROTO_VENV)
	@$(PROTO_VENV)/bin/python -m pip install --quiet --disable-pip-version-check \
		grpcio-tools==1.76.0 mypy-protobuf==3.7.0 'setuptools<81'
	@touch $@
