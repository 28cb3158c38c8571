# make demo   export the tiny trained models and compare the methods
# make test   the whole test suite
# make serve-checks  the server with real clients, a browser, HAProxy, systemd (tests/serve/README.md)
# make build  the release binary, with the ONNX Runtime library beside it
# make tensorrt  the release binary with TensorRT-RTX: `forkcast build`, and engines on a GPU
# make test-tensorrt  engines built with the real TensorRT-RTX library, which needs no GPU
# make test-gpu  kernels and the tiny pair on a GPU; where there is none it names what was not run
# make fuzz   libFuzzer on every target, half an hour; FUZZ_SECONDS for each (tests/fuzz/run.sh)
# make soak   2,000 requests against one server process, compared with cold runs
# make lint   formatting and clippy
# make clean  forget everything that was built or fetched

CARGO ?= cargo
TARGET := $(or $(CARGO_TARGET_DIR),target)
FORKCAST_PYTHON ?= $(CURDIR)/.venv/bin/python
export FORKCAST_PYTHON

.PHONY: fuzz soak demo test serve-checks tensorrt test-tensorrt test-gpu build lint clean library venv node

demo: build
	$(TARGET)/release/forkcast demo

build: library
	$(CARGO) build --locked --release --package forkcast --bin forkcast

test: library venv node
	$(MAKE) --no-print-directory -C plugins/cuda host-test plugin-test parse-test
	@if $(CARGO) nextest --version >/dev/null 2>&1; then \
		$(CARGO) nextest run --locked --release --workspace; \
	else \
		$(CARGO) test --locked --release --workspace; \
	fi

tensorrt: library
	@scripts/need-libclang.sh
	@scripts/fetch-tensorrt.sh
	$(CARGO) build --locked --release --package forkcast --bin forkcast --features tensorrt

# Leaves the binary with the feature in place; the TensorRT 11 flavour is compiled, and nothing more.
test-tensorrt: library
	@scripts/need-libclang.sh
	@scripts/fetch-tensorrt.sh
	$(CARGO) test --locked --release --package forkcast --features tensorrt --test tensorrt -- --nocapture --test-threads 2
	$(CARGO) clippy --locked --release --package forkcast --features tensorrt --all-targets -- -D warnings
	$(CARGO) clippy --locked --release --package forkcast --features tensorrt-enterprise -- -D warnings

test-gpu:
	$(MAKE) --no-print-directory -C plugins/cuda test-gpu test-gpu-sanitized
	$(MAKE) --no-print-directory tensorrt
	scripts/test-gpu.sh $(TARGET)/release/forkcast

fuzz:
	tests/fuzz/run.sh

soak: build
	tests/soak/run.sh $(TARGET)/release/forkcast

serve-checks: build venv node
	tests/serve/run.sh $(TARGET)/release/forkcast

lint:
	$(CARGO) fmt --all --check
	$(CARGO) clippy --locked --release --workspace --all-targets -- -D warnings

# The library that the binary and the tests load.
library:
	@scripts/fetch-onnxruntime.sh

# JavaScript packages for the tests only.
node:
	@scripts/test-node.sh

# Python for the tests only.
venv:
	@scripts/test-venv.sh

clean:
	$(CARGO) clean
	rm -rf lib .venv build/node build/deb
