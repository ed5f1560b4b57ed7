# Emberbank: `make serve` builds and serves a small model, `make test` runs every test.
#
# build/        the Release binary and nothing else        (make build, make serve)
# build-test/   the same sources with all tests            (make test)
# build-asan/   units under address and undefined-behaviour sanitizers
# build-tsan/   scheduler, cache and http under the thread sanitizer
# build-neon/   the kernels for 64-bit ARM, cross-compiled and emulated

MODEL ?= models/SmolLM2-135M-Instruct.Q4_1.gguf
JOBS ?= $(shell getconf _NPROCESSORS_ONLN)

.PHONY: build serve test lint format tidy bench clean setup setup-tests models test-main test-neon test-asan test-tsan

build: setup
	cmake --preset release -DEMBERBANK_BUILD_TESTS=OFF
	cmake --build build -j $(JOBS)

serve: build
	scripts/fetch_model smollm2
	build/emberbank serve $(MODEL)

test: setup-tests models lint test-main test-neon test-tsan test-asan

setup:
	scripts/setup

setup-tests:
	scripts/setup --tests

models:
	scripts/fetch_model smollm2 gemma3

test-main:
	cmake --preset test
	cmake --build build-test -j $(JOBS)
	ctest --test-dir build-test -j $(JOBS) --output-on-failure

# On x86-64 Linux; on 64-bit ARM test-main runs these tests.
test-neon:
	if [ "$$(uname -sm)" = "Linux x86_64" ]; then scripts/test_neon; fi

# Whole models would take too long under sanitizers.
test-asan:
	cmake --preset asan
	cmake --build build-asan -j $(JOBS) --target unit_tests gguf_fuzz safetensors_fuzz
	ctest --test-dir build-asan -j $(JOBS) --output-on-failure -L unit

test-tsan:
	cmake --preset tsan
	cmake --build build-tsan -j $(JOBS) --target cache_test scheduler_test http_test
	ctest --test-dir build-tsan --output-on-failure -R '^(cache|scheduler|http)$$'

lint:
	python3 tools/check_layers.py
	python3 tools/check_lengths.py
	python3 tools/check_text.py
	clang-format-19 --dry-run --Werror $$(git ls-files '*.cpp' '*.h')

format:
	clang-format-19 -i $$(git ls-files '*.cpp' '*.h')

tidy:
	cmake --preset test
	run-clang-tidy-19 -quiet -p build-test $$(git ls-files 'src/*.cpp')

bench: build
	scripts/fetch_model smollm2
	build/emberbank bench $(MODEL)

clean:
	rm -rf build build-*
