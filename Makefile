# A thin face over the CMake presets. Everything that is built lands in build/.
#
#   make serve DIR=./export [ARGS="..."]   build, then serve DIR over NFS/RDMA and NFS/TCP (ARGS: see penstock serve --help)
#   make test                              build, then run every test
#   make bench                             measure, against what the machine can do (BENCH: see bench/run --help)
#   make fuzz | soak | coverage            FUZZ_SECONDS=300 for each target, SOAK_ROUNDS=20, SOAK_SCHEDULES=200000
#   make format | lint                     mend, or check, the style
#   make clean                             remove build/

DIR ?= ./export
ARGS ?=
SOAK_ROUNDS ?= 20
SOAK_SCHEDULES ?= 200000
GCOVR = --exclude '.*_test\.cc' --exclude '.*/test_.*\.h' --exclude-throw-branches
SOURCES = $(shell git ls-files '*.cc' '*.h')

.PHONY: serve release test bench fuzz soak coverage format lint clean
.DEFAULT_GOAL := release

# Tests stay out, so that serving needs no test library.
release:
	@scripts/install-deps build
	@cmake --preset release -DPENSTOCK_BUILD_TESTS=OFF >/dev/null
	@cmake --build --preset release --target penstock

serve: release
	@[ -e "$(DIR)" ] || { echo "make serve: $(DIR) does not exist yet, making it"; mkdir -p "$(DIR)"; }
	@exec build/release/src/cli/penstock serve "$(DIR)" $(ARGS)

test:
	@scripts/run-tests

fuzz:
	@FUZZ_SECONDS=$(or $(FUZZ_SECONDS),300) scripts/run-tests fuzz

bench:
	@scripts/install-deps build bench
	@cmake --preset release -DPENSTOCK_BUILD_TESTS=OFF -DPENSTOCK_BUILD_BENCHMARKS=ON >/dev/null
	@cmake --build --preset release --target penstock penstock_bench tcp_pingpong
	@bench/run $(BENCH)

# The same tests again and again under AddressSanitizer: what fails one time in twenty shows itself here. By g++, which
# makes what is released; `make test` has them by clang.
soak:
	@scripts/install-deps build test
	@cmake --preset asan -B build/soak -DCMAKE_CXX_COMPILER=g++ -DCMAKE_CXX_FLAGS_DEBUG="-O1 -g1" \
	    -DPENSTOCK_BUILD_FUZZERS=OFF >/dev/null && cmake --build build/soak
	@build/soak/tests/sim/sim_schedules --seed $$(date +%s%N) --count $(SOAK_SCHEDULES)
	@ctest --test-dir build/soak -LE 'interop|sim' --repeat until-fail:$(SOAK_ROUNDS) --output-on-failure

coverage:
	@scripts/install-deps build test lint
	@cmake --preset debug -B build/coverage -DCMAKE_CXX_FLAGS=--coverage >/dev/null && cmake --build build/coverage
	@ctest --test-dir build/coverage -LE interop --output-on-failure
	@gcovr --root . --filter src/ $(GCOVR) --txt --html build/coverage/index.html build/coverage
	@echo "The transport, which must stay above 95 %:"
	@gcovr --root . --filter src/rpcrdma/ --filter src/rdma/iwarp/ $(GCOVR) --txt --fail-under-line 95 build/coverage

format:
	@scripts/install-deps lint
	@clang-format-19 -i $(SOURCES)

# Without precompiled headers: each file includes what it uses.
lint:
	@scripts/install-deps build test lint
	@clang-format-19 --dry-run -Werror $(SOURCES)
	@cmake --preset asan -B build/lint -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON >/dev/null && cmake --build build/lint
	@run-clang-tidy-19 -quiet -p build/lint "$(CURDIR)/(src|fuzz)/.*"

clean:
	@rm -rf build
