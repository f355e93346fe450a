# For people used to make; every target is one cargo command. ARGS goes to `run` and `bench`.
.PHONY: build test run lint bench

build:
	cargo build --release

test:
	cargo xtask test

run: ARGS ?= solve --explain docs/examples/scenario.json
run:
	cargo run --release -- $(ARGS)

lint:
	cargo xtask lint

bench:
	cargo xtask bench $(ARGS)
