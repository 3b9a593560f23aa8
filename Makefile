.DEFAULT_GOAL := help
PY := .venv/bin/python
BIN := .venv/bin
MEMBERS := proto libs/kit services/scheduler services/fetcher services/parser services/proxy-broker services/health cli
STAMP := .venv/.stamp
HELM := .venv/helm/.stamp
CLUSTER ?= /var/tmp/limpet-cluster
PROMTOOL := .venv/prometheus/.stamp

help: ## List the commands
	@grep -hE '^[a-z/-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 18

$(STAMP): requirements.lock $(addsuffix /pyproject.toml,$(MEMBERS))
	@command -v python3.11 >/dev/null || command -v python3 >/dev/null || { echo "Limpet needs Python 3.11"; exit 1; }
	@echo "Installing Limpet into .venv (about a minute the first time) ..."
	@test -x $(PY) || $$(command -v python3.11 || command -v python3) -m venv .venv
	@$(PY) -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	@$(PY) -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation $(addprefix -e ./,$(MEMBERS))
	@touch $@

install: $(STAMP) ## Make the virtual environment in .venv

$(HELM): $(STAMP) deploy/helm/tools.lock tools/get_helm.py
	@$(PY) tools/get_helm.py .venv/helm
	@touch $@

helm: $(HELM) ## Put helm 3, helm 4 and kubectl into .venv/helm

$(PROMTOOL): $(STAMP) tools/get_promtool.py
	@$(PY) tools/get_promtool.py .venv/prometheus
	@touch $@

promtool: $(PROMTOOL) ## Put promtool of Debian's package into .venv/prometheus

run: $(STAMP) ## Crawl the demo shop from nothing and show where the items are
	@$(PY) tools/demo.py

up: $(STAMP) ## Start the platform on this machine (Ctrl-C stops it)
	@$(BIN)/limpet up

site: $(STAMP) ## Serve the demo shop by itself
	@$(PY) -m tests.support.site

test: $(STAMP) $(HELM) $(PROMTOOL) ## Run every test on real servers
	@$(PY) -m pytest -n 2 --ignore tests/e2e --ignore tests/chaos --ignore tests/containers --ignore tests/cluster
	@echo "Whole platforms now, one at a time: their pace is measured (about nine minutes) ..."
	@$(PY) -m pytest tests/e2e tests/chaos

lint: $(STAMP) ## Check style, types, contracts and generated files
	@$(BIN)/ruff check . && $(BIN)/ruff format --check .
	@$(BIN)/mypy libs/kit/src services/*/src cli/src tests tools bench
	@$(PY) tools/check_proto.py
	@$(PY) -m tools.make_docs --check

format: $(STAMP) ## Format the code
	@$(BIN)/ruff check --fix -q . ; $(BIN)/ruff format .

proto: $(STAMP) ## Generate limpet.contracts from proto/
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(PY) tools/make_proto.py

docs: $(STAMP) ## Generate docs/states.md, docs/configuration.md, proto/README.md and the chart's README
	@$(PY) -m tools.make_docs

bench: $(STAMP) ## Crawl a generated site with Limpet and with Scrapy and compare
	@$(PY) -m bench

bench-scheduler: $(STAMP) ## Measure claiming, settling and fairness of the scheduler's queue on millions of rows
	@$(PY) -m bench.scheduler

bench-runs: $(STAMP) ## Collect a run of 500,000 URLs, commit it in one transaction, and post it again
	@$(PY) -m bench.scheduler --only runs

bench-broker: $(STAMP) ## Measure how many leases with reports a second the proxy broker gives, and how fast
	@$(PY) -m bench.broker

base-image: $(STAMP) ## Make a base for the images from Debian's packages, where no registry is reachable (root)
	@$(PY) -m tools.make_images base

images: $(STAMP) ## Build the five images (BASE_IMAGE and TAG may be set)
	@$(PY) -m tools.make_images services

test-containers: images ## Run the five images with NATS and PostgreSQL in containers and crawl the demo shop
	@$(PY) -m tools.make_images servers
	@$(PY) -m pytest -s tests/containers

e2e: images $(HELM) ## Install the chart on a real API server and kubelet, scale, upgrade and kill during a crawl (root)
	@$(PY) -m tools.make_images servers
	@tests/cluster/build.sh $(CLUSTER)
	@tests/cluster/up.sh $(CLUSTER) $(CURDIR)/.venv/helm/kubectl
	@KUBECONFIG=$(CLUSTER)/run/kubeconfig $(PY) -m pytest -s -p no:randomly tests/cluster; code=$$?; tests/cluster/down.sh $(CLUSTER); exit $$code

bench-products: $(STAMP) ## Make a million products and measure how long it takes to find some by text and price
	@$(PY) -m bench.products

chaos: $(STAMP) ## Kill every service during a crawl and during runs, and check that nothing was lost or is half
	@$(PY) -m pytest -s tests/chaos

pace: $(STAMP) ## Crawl one domain for ten minutes with two schedulers and three fetchers and judge every gap
	@PACE_PAGES=$${PACE_PAGES:-3000} $(PY) -m pytest -s tests/e2e/test_pace.py -k one_domain

scaling: $(STAMP) ## Crawl 5,000 pages with one fetcher, six, and one again, and judge what the site saw
	@SCALING_PAGES=$${SCALING_PAGES:-5000} $(PY) -m pytest -s tests/e2e/test_scaling.py

lock: $(STAMP) ## Pin the dependencies again
	@$(BIN)/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-header -o requirements.lock requirements-dev.in

clean: ## Remove everything that was made here
	rm -rf .venv .venv-bench .limpet out build .mypy_cache .ruff_cache .pytest_cache

.PHONY: help install helm promtool run up site test lint format proto docs bench bench-scheduler bench-runs bench-broker bench-products base-image images test-containers e2e chaos pace scaling lock clean
