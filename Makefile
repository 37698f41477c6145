# Every target does its own set-up: a fresh machine needs Python 3.11+, make and PyPI, nothing else.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: help demo test check fix docs slow vllm test-real smoke-real soak accept bench setup lock clean
help:
	@grep -E '^[a-z-]+:.*##' Makefile | sed -E 's/:.*##/\t/'

$(READY): requirements/dev.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "advisor needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) --version). Try: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; exit 2; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/dev.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	$(BIN)/python -c 'from advisor.sim.compiled import warm; warm()'  # compiles the simulator
	@touch $@

setup: $(READY) ## make .venv with the locked dependencies

demo: $(READY) ## recommend a setting on the simulator, no GPU needed
	@rm -rf .demo && mkdir .demo
	$(BIN)/advisor recommend --engine sim --model llama-3.1-8b --hardware h100-sxm \
	  --profile profiles/chat-and-documents.jsonl \
	  --target 'ttft:p95<=1000ms' --target 'itl:p99<=40ms' --db sqlite:///.demo/advisor.db

test: $(READY) ## the quick tests, under 3 minutes
	$(BIN)/python -m pytest -q -n 2 -m 'not slow and not real and not accept'

check: $(READY) ## lint, types, import layers, migrations equal models, docs not stale
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m pytest -q tests/migration -m 'not accept'
	$(BIN)/python docs/generate.py --check

fix: $(READY) ## format and repair what can be repaired
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(READY) ## write the generated pages again
	$(BIN)/python docs/generate.py

slow: $(READY) ## what is too slow for `make test`: kills, wheel, whole command lines
	$(BIN)/python -m pytest -q -n 2 -m 'slow and not real and not accept' --timeout 600

vllm: $(READY) ## a real vLLM for CPUs, in a cache outside the checkout (docs/real-vllm.md)
	$(BIN)/python tests/real/install.py

test-real: vllm ## the whole job against real vLLM servers on this machine's CPU (over an hour)
	CI=true $(BIN)/python -m pytest -q -m real tests/real --timeout 3600

smoke-real: vllm ## the part of test-real that the gate runs
	CI=true $(BIN)/python -m pytest -q -m 'real and not accept' tests/real --timeout 900

soak: $(READY) ## 200 launches with faults under an Advisor that is killed all the time; prints one JSON object
	$(BIN)/python tests/soak.py

bench: vllm ## each benchmark prints one JSON object
	for script in benchmarks/*.py; do $(BIN)/python $$script || exit 1; done

accept: vllm ## what is too long for the gate, and every benchmark; prints one JSON object with the tree's hash
	$(BIN)/python tests/accept.py

lock: ## pin every dependency again (needs uv on PATH)
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --no-annotate pyproject.toml -o requirements/runtime.lock
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --no-annotate --extra dev -c requirements/runtime.lock pyproject.toml -o requirements/dev.lock

clean:
	rm -rf $(VENV) .demo dist build
