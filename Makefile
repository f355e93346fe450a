# For people used to make; every target is one cargo command.
.PHONY: build test run lint bench

build:
	cargo build --release

test:
	cargo xtask test

run:
	cargo run --release -- $(ARGS)

lint:
	cargo xtask lint

bench:
	cargo xtask bench $(ARGS)
