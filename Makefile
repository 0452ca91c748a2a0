# The two commands: `make reproduce` (set-up and the whole default run) and `make test` (set-up and the tests).
PYTHON ?= python3
VENV ?= .venv
CORES ?= all
RUN ?= laptop
ARGS ?=

BIN := $(CURDIR)/$(VENV)/bin
export PATH := $(BIN):$(PATH)
export PYTHONNOUSERSITE := 1
SNAKEMAKE := snakemake --cores $(CORES) --config run=$(RUN)

.DEFAULT_GOAL := help
.PHONY: help setup reproduce record test format pull pin report clean

help: ## show this list
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

setup: $(VENV)/.ready ## check the machine and make the environment in .venv

$(VENV)/.ready: requirements.lock pyproject.toml
	@sh workflow/check_machine.sh "$(PYTHON)"
	@echo "Installing requirements.lock into $(VENV): takes minutes, most of them for torch"
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --requirement requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --editable .
	@touch $@

reproduce: setup ## everything: dataset, rollouts, verdicts, figures, notebooks, paper (RUN=laptop, CORES=all)
	$(SNAKEMAKE) $(ARGS)
	@$(MAKE) --no-print-directory record
	@echo "Done: results/$(RUN)/paper.pdf, results/$(RUN)/figures, results/$(RUN)/notebooks, data/$(RUN)/tasks.parquet"

record: setup ## tell DVC of a run that Snakemake made, so that `dvc repro` and `dvc exp run` go on from it
	cuda-agent record $(RUN)

# One test at a time: those of the sandbox plant fork bombs, which others would feel.
test: setup ## lint and all tests, with the real Snakemake and DVC on copies of the repository (ARGS=... goes to pytest)
	ruff check
	ruff format --check
	snakefmt --check Snakefile workflow/rules
	snakemake --lint
	cuda-agent dvc-yaml --check
	cuda-agent readme --check
	pytest -m "not nightly and not gpu" $(ARGS)

format: setup ## format Python and rules, write dvc.yaml anew from the rules
	ruff check --fix
	ruff format
	snakefmt Snakefile workflow/rules
	cuda-agent dvc-yaml

pull: setup ## fetch a published run's artefacts from the DVC remote, so that Snakemake has nothing left to do
	cuda-agent pull

pin: setup ## keep the measured artefacts of RUN in git, under data/pinned/RUN
	cuda-agent pin $(RUN)

report: setup ## results/RUN/report.html: Snakemake's page about the run
	$(SNAKEMAKE) --report results/$(RUN)/report.html

clean: ## remove everything that a run made, of every run; pinned measurements stay, and what git holds as it was committed
	git clean -fdxq --exclude=/data/pinned -- work .snakemake data results
	git checkout -q -- results
