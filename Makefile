# The tasks of a developer, a word each. `make help` lists them.
PYTHON ?=
VENV := .venv
BIN := $(VENV)/bin
# Modules are compiled once and kept, not in each of the hundreds of processes that tests start.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help env extras run test patience faults check fast pins containers simulate fuzz network pages chaos \
  soak siege scaling bench ratios peers docs clean

help:  ## print this list
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-10s %s\n", $$1, $$2}'

env:  ## make .venv with everything; PYTHON=... chooses another Python
	@deploy/environment.sh $(VENV) $(PYTHON)

# Without them, tests of Minari, MinAtar, Atari, the site and the actor in JavaScript skip.
extras: env  ## packages of worlds, data sets, the site and Node.js that more tests use
	@$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt \
	  --editable '.[minari,minatar,atari]' jsonschema --group docs
	@if command -v npm >/dev/null; then \
	  npm ci --silent --ignore-scripts --prefix examples/node-actor; fi

run: env  ## solve CartPole-v1 with a learner and two local actors
	@$(BIN)/learner --env CartPole-v1 --actors 2 --until 'evaluation >= 475' \
	  --evaluate-every 2000 --steps 1000000

# Tests with processes mostly wait: four at a time fill two cores, beside a busy machine as well.
# Those that share processes are a group of one worker (tests/support/arrangement.py).
test: env  ## all tests
	@OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 4 -m 'not faults and not containers'

patience: env  ## make test RUNS (20) times, every other time beside four busy loops
	@$(BIN)/python tests/patience.py --runs $(or $(RUNS),20)

faults: env  ## kills, cuts, full disks, more attacks and worlds, benchmarks, in short; as root
	@OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 -m 'faults and not long'

fast: env  ## the fast tests, with coverage
	@OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 -m 'not slow' \
	  --cov --cov-report=term --cov-fail-under=90

containers: env  ## images and docker-compose.yml (needs a Docker engine)
	@$(BIN)/python -m pytest -m containers -s -rs

check: env  ## formatting, lint, types, counts of prose, and the pins of images
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/python tests/prose.py
	@$(BIN)/python deploy/pins.py --check

pins: env  ## deploy/pins again: versions and hashes of all that images install
	@$(BIN)/python deploy/pins.py

simulate: env  ## delivery and journal against 1,000 seeds of faults, and every planted mutation
	@$(BIN)/python tests/simulation/run.py --seeds 1000

fuzz: env  ## every decoder against MINUTES (10) of hostile input, and 2 minutes of a real learner
	@$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt atheris
	@OMP_NUM_THREADS=1 $(BIN)/python tests/fuzz/run.py --minutes $(or $(MINUTES),10)
	@$(BIN)/python tests/hostile/converse.py --minutes 2

network: env  ## cuts, losses and resets between network namespaces; needs root
	@OMP_NUM_THREADS=1 PUBLISH=1 $(BIN)/python -m pytest -m long tests/system/network
	@$(BIN)/python docs/write.py

pages: env  ## four minutes: each training of the pages, begun and ended
	@OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 -m long tests/system/test_page_commands.py

chaos: env  ## fifty minutes: 220 kills, crashes at every disk call, learning with faults
	@$(BIN)/python tests/system/chaos/run.py --kills 220 --publish
	@$(BIN)/python tests/system/chaos/relay.py --publish
	@$(BIN)/python tests/system/chaos/rounds.py --publish
	@$(BIN)/python tests/system/chaos/workers.py --publish
	@$(BIN)/python tests/system/chaos/policies.py --publish
	@$(BIN)/python tests/system/chaos/independent.py --publish
	@$(BIN)/python tests/system/chaos/archive.py --publish
	@$(BIN)/python tests/system/chaos/sweep.py --publish
	@$(BIN)/python tests/system/chaos/solve.py --publish
	@$(BIN)/python docs/write.py

soak: env  ## 20 minutes with faults: no growth of memory, descriptors or threads
	@$(BIN)/python tests/system/chaos/soak.py --minutes 20 --publish
	@$(BIN)/python docs/write.py

siege: env  ## MINUTES (30) of all known attacks on a learner with keys, a broker and honest actors
	@$(BIN)/python tests/hostile/siege.py --minutes $(or $(MINUTES),30) --seed $(or $(SEED),1) --publish
	@$(BIN)/python docs/write.py

scaling: env  ## 23 minutes: 1 to 48 actors, async against sequential, a slow learner, real time
	@OMP_NUM_THREADS=1 $(BIN)/python bench/slow_update.py --publish
	@OMP_NUM_THREADS=1 $(BIN)/python bench/epoch.py --publish
	@OMP_NUM_THREADS=1 $(BIN)/python bench/scale.py --publish
	@OMP_NUM_THREADS=1 $(BIN)/python bench/real_time.py --publish
	@$(BIN)/python docs/write.py

bench: env  ## every benchmark, one JSON line each
	@for script in bench/[a-z]*.py; do OMP_NUM_THREADS=1 $(BIN)/python $$script || exit 1; done

ratios: env  ## our ratios to their limits; fails if one is over 15 % below the committed one
	@OMP_NUM_THREADS=1 $(BIN)/python bench/ratios.py --check

peers: env  ## 40 minutes: beside other libraries, each in an environment of its own
	@OMP_NUM_THREADS=1 $(BIN)/python -m bench.peers --publish
	@$(BIN)/python docs/write.py

docs: env  ## the documentation as a site in build/site: no other host is asked, built or read
	@$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt --group docs
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet
	@echo "build/site/index.html; to search too: python3 -m http.server -d build/site"

clean:  ## remove the environment and caches
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .coverage
