# `.ci/run` makes these, and measures each. It lints while it compiles the tests.
PARTS := format deny unused test demo

.PHONY: check parts lint docs $(PARTS) release-check

check: lint docs $(PARTS)

parts:
	@echo $(PARTS)

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

# Before a release only: alerts, dashboards, units, DuckDB, cells, faults, package, archive, an
# installation, a restore to any moment.
release-check: docs
	promtool check config deploy/prometheus/prometheus.yml
	promtool test rules deploy/prometheus/rules_test.yml
	for unit in deploy/systemd/*.service; do \
		systemd-analyze security --offline=true --threshold=20 $$unit || exit 1; done
	python3 -m venv target/duckdb && target/duckdb/bin/pip install --quiet duckdb
	PATH="$$PWD/target/duckdb/bin:$$PATH" ./scripts/test audit duckdb --locked -- --ignored
	./scripts/check-dashboards
	./scripts/simulate-cells --check
	./scripts/test-through-haproxy
	cargo run --locked --release -p bench -- faults --seed 44 --faults 36
	cargo run --locked --release -p bench -- faults --seed 44 --promotions 2
	./scripts/package-deb
	./scripts/package-archive
	./scripts/rehearse-install target/package/firmforms_*.deb
	./scripts/rehearse-pitr
