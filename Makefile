# Every target calls the command line `r2med`; the Makefile only sees to it that it is installed.
# `make help` shows what there is.

SUITE ?= r2med
export SUITE
VENV ?= .venv
R2MED := '$(VENV)/bin/r2med'
INSTALLED := $(VENV)/.installed
TESTED := $(VENV)/.installed-test
BENCHED := $(VENV)/.installed-bench

.DEFAULT_GOAL := help
.PHONY: help setup demo data list doctor report report-page docs regressions log test lint bench clean distclean
.SUFFIXES:

## help: show this
help:
	@echo "R2MED with Pyserini. The main targets:"
	@echo
	@sed -n 's/^## \([^:]*\): /  make \1|/p' '$(lastword $(MAKEFILE_LIST))' | awk -F'|' '{printf "%-32s %s\n", $$1, $$2}'
	@echo
	@echo "Variables: SUITE=r2med|mini|FOLDER (default r2med), PYTHON=a Python 3.12 or newer, ARGS=more options of r2med"

## demo: lexical, sparse and dense retrieval on the embedded mini suite: no data to fetch, no Java to install
demo: $(INSTALLED)
	@$(R2MED) run --all --suite mini $(ARGS)

## CONDITION-all: run a condition on every dataset of SUITE, for example `make bm25-all`
## CONDITION-DATASET: run it on one dataset, for example `make bm25-biology SUITE=mini`
.DEFAULT:
	@$(MAKE) -s --no-print-directory $(INSTALLED)
	@$(R2MED) target $@ --suite "$$SUITE" $(ARGS)

## data: fetch R2MED from the Hugging Face Hub and verify it
data: $(INSTALLED)
	@$(R2MED) data $(ARGS)

## list: show conditions and suites
list: $(INSTALLED)
	@$(R2MED) list $(ARGS)

## report: show the scores of the runs made so far
report: $(INSTALLED)
	@$(R2MED) report --suite "$$SUITE" $(ARGS)

## report-page: the same as a page with plots, runs/report.html
report-page: $(INSTALLED)
	@$(R2MED) report --suite "$$SUITE" --format html --output runs/report.html $(ARGS)

## docs: write the site under docs/: scores to expect, commands to copy (nothing is run)
docs: $(INSTALLED)
	@$(R2MED) docs $(ARGS)

## regressions: run every condition that this machine can run, and say why not the others
regressions: $(INSTALLED)
	@$(R2MED) regressions --suite "$$SUITE" $(ARGS)

## log NAME=HANDLE: log that this GitHub user has reproduced what is verified here
log: $(INSTALLED)
	@$(R2MED) log "$(NAME)" --suite "$$SUITE" $(ARGS)

## doctor: check Java, memory, disk, data
doctor: $(INSTALLED)
	@$(R2MED) doctor

## setup: create .venv and install the package
setup: $(INSTALLED)

$(INSTALLED): setup.cfg
	@sh scripts/setup.sh "$(VENV)" "$(PYTHON)" '.[models]'
	@touch $@

$(TESTED): $(INSTALLED)
	@sh scripts/setup.sh "$(VENV)" "$(PYTHON)" '.[models,test]'
	@touch $@

$(BENCHED): $(INSTALLED)
	@sh scripts/setup.sh "$(VENV)" "$(PYTHON)" '.[models,bench]'
	@touch $@

## test: run the tests, a file of them on each processor
test: $(TESTED)
	@$(VENV)/bin/python -m pytest -n auto --dist loadfile $(ARGS)

## lint: check style
lint: $(TESTED)
	@$(VENV)/bin/ruff check . && $(VENV)/bin/ruff format --check .

## bench: time lexical retrieval, encoding, reranking and fusion beside other ways to the same
bench: $(BENCHED)
	@$(VENV)/bin/python benchmarks/lexical.py --quick $(ARGS)
	@$(VENV)/bin/python benchmarks/encoding.py
	@$(VENV)/bin/python benchmarks/reranking.py
	@$(VENV)/bin/python benchmarks/fusion.py

## clean: remove collections, indexes and runs that r2med made (data/, kept scores and replies, and your own files stay)
clean:
	@if [ -x $(R2MED) ]; then $(R2MED) clean --yes; fi

## distclean: clean, and remove .venv
distclean: clean
	@if [ -e '$(VENV)/pyvenv.cfg' ]; then rm -rf '$(VENV)'; fi
