# What CI runs is what a person runs. Needs a Rust toolchain (1.94 or newer), a C and a C++ compiler, perl and make; cargo
# fetches the rest, librdkafka and, without that of the system (libssl-dev, pkg-config), OpenSSL among it. Everything goes to target/ and out/.

POLICY  ?= laxity
FOR     ?= 60 s
PACE    ?= 0.9
WORKERS ?=
FILE    ?= examples/two-tenants.sql examples/boards.sql
DENSITY ?=
FIGURE  ?= all
SCALE   ?= paper
FIGURES ?= benchmarks/figures
RUNS    ?= 1000
CRASHES ?= 10000
KILLS   ?=
WITH    ?=
SEED    ?=

# OpenSSL is built for librdkafka otherwise, which takes minutes.
ifeq ($(shell pkg-config --exists openssl 2>/dev/null && echo yes),yes)
export OPENSSL_NO_VENDOR ?= 1
endif

TARGET_DIR := $(if $(CARGO_TARGET_DIR),$(CARGO_TARGET_DIR),target)
LAXITY     := $(TARGET_DIR)/release/laxity

.DEFAULT_GOAL := help
.PHONY: help program build run test lint wasm bench bench-density bench-shared bench-approximate bench-peers bench-small figures simulate crash-test attach-demo attach-test kafka-test postgres-test flink-check bench-attach clean

help: ## show this list
	@grep -E '^[a-z-]+: .*## ' $(MAKEFILE_LIST) | sed 's/: .*## /\t/' | expand -t 14

# Packages that are built together agree on features of what they share: WITH them, as `build` has it, nothing is built twice.
program: ## build the program laxity alone
	cargo build --locked --release -p laxity-cli $(WITH)

build: WITH = -p laxity-agent -p laxity-bench
build: program ## build laxity, its agent and its benchmarks

run: program ## run the main job at nine tenths of what this machine can do; POLICY=fifo or POLICY=os to compare, FOR='20 s'
	$(LAXITY) run $(FILE) --shared --policy $(POLICY) $(if $(PACE),--pace $(PACE)) $(if $(FOR),--for '$(FOR)') $(if $(WORKERS),--workers $(WORKERS))

test: ## run every test, then model-check the workers' sleeping protocol
	cargo test --locked --workspace
	cargo test --locked --workspace --features laxity-engine/loom --lib loom

lint: ## check format, clippy and docs, warnings as errors
	cargo fmt --all --check
	cargo clippy --locked --workspace --all-targets -- -D warnings
	RUSTDOCFLAGS='-D warnings' cargo doc --locked --workspace --no-deps --document-private-items

wasm: ## compile the pure crates, but for their machine code, for wasm32-unknown-unknown
	scripts/wasm.sh

bench: build ## measure every number the README quotes (a quarter of an hour; leave the machine alone)
	$(TARGET_DIR)/release/laxity-bench

bench-density: build ## how many queries two cores carry (two hours; DENSITY='--cells issue' and the like for less)
	$(TARGET_DIR)/release/laxity-bench density $(DENSITY)

bench-shared: build ## what a query per customer over one stream costs, read together and not (a quarter of an hour)
	$(TARGET_DIR)/release/laxity-bench density --cells one-stream,one-view,nothing-shared,templates,many-windows,change-one,registered

bench-approximate: build ## what approximate windows cost and save, on threads (ten minutes; leave the machine alone)
	$(TARGET_DIR)/release/laxity-bench approximate

bench-peers: program ## race Flink on the same Kafka topics with the same SQL, both installed and started (an hour); PHASES and more: see scripts/race.sh
	LAXITY=$(LAXITY) scripts/race.sh

bench-small: build ## see that the benchmarks which start the program still run; tests do so for all others
	$(TARGET_DIR)/release/laxity-bench start main-job policies --small --runs $(TARGET_DIR)/bench-runs

figures: program ## make the figures of the papers in the simulator; FIGURE=cameo-8a for one, SCALE=small for seconds
	$(LAXITY) bench $(FIGURE) --scale $(SCALE) --out $(FIGURES)

simulate: ## long seeded fault runs and crashes in virtual time; RUNS=10000, CRASHES=100000, SEED=7 to begin elsewhere or to replay
	cargo run --locked --release -p laxity-sim --example faults -- --runs $(RUNS) $(if $(SEED),--seed $(SEED))
	CRASHES=$(CRASHES) $(if $(SEED),SEED=$(SEED)) cargo test --locked --workspace --lib killed_at_random_moments -- --nocapture
	CRASHES=$(CRASHES) cargo test --locked --workspace --test scripts golden_results_do_not_depend_on_crashes -- --nocapture

crash-test: ## kill the program at random moments and run it again (half a minute for each of RUNS=200); SEED=7 for others
	CRASH_RUNS=$(RUNS) $(if $(SEED),SEED=$(SEED)) cargo test --locked -p laxity-cli --test scripts killed -- --nocapture

attach-demo: build ## install Flink, run an urgent and a bulk job on it, in turn without and with Laxity beside it
	scripts/attach-demo.sh

attach-test: build ## test attaching and submitting on a real Flink, which is installed and started (one to two minutes)
	LAXITY=$(LAXITY) scripts/attach-test.sh

kafka-test: program ## test tables in Kafka on a real broker, which is installed and started (two to three minutes; KILLS=20 for more)
	LAXITY=$(LAXITY) KILLS=$(KILLS) scripts/kafka-test.sh

postgres-test: program ## test tables in PostgreSQL on a real server, which is started (one minute; KILLS=20 for more)
	LAXITY=$(LAXITY) KILLS=$(KILLS) scripts/postgres-test.sh

flink-check: ## ask a real Flink, which is installed and started, what Laxity is compared with (ten minutes and more); SEED=2, FRESH=yes, OLDER=no
	scripts/flink-check.sh

bench-attach: build ## measure attaching on real Flink and Storm; ROUNDS, PHASE, ONLY and more: see scripts/bench-attach.sh
	LAXITY=$(LAXITY) scripts/bench-attach.sh

clean: ## remove what the other targets made
	cargo clean
	rm -rf out
