# What CI runs, and its parts. `make check` is all of it.
.PHONY: check format lint docs deny unused test demo

check: format lint docs deny unused test demo

format:
	cargo fmt --all --check

lint:
	cargo clippy --workspace --all-targets --locked -- -D warnings

docs:
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --locked --document-private-items

deny:
	cargo deny --offline check bans licenses sources

unused:
	cargo machete

test:
	./scripts/test --locked

demo:
	./scripts/demo --once
