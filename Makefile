# What CI runs, and its parts. `make check` is all of it.
.PHONY: check format lint docs deny unused test demo release-check

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

# Before a release only: the package, lintian, an installation, a restore to any moment, alerts.
release-check:
	promtool test rules deploy/prometheus/rules_test.yml
	systemd-analyze security --offline=true --threshold=20 deploy/systemd/firmforms.service
	./scripts/package-deb
	./scripts/rehearse-install target/package/firmforms_*.deb
	./scripts/rehearse-pitr
