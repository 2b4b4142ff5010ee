# Short commands for the CMake presets. All build output goes to build/.
#
#   make serve DIR=./export [ARGS="..."]   build, then serve DIR over NFS/RDMA and NFS/TCP (ARGS: see penstock serve --help)
#   make test                              the tests that every change must pass
#   make test-all [PARTS="kills krb5"]     every test, or some parts of them (scripts/run-tests --help names them)
#   make deb                               Debian packages in build/deb
#   make bench                             measure Penstock, the machine and others, and write docs/performance.md (BENCH: see bench/run --help)
#   make fuzz | coverage | lint            parts of make test-all by themselves (FUZZ_SECONDS=300 for each target)
#   make soak                              the same tests again and again (SOAK_ROUNDS=20, SOAK_SCHEDULES=200000)
#   make format                            format the C++ sources
#   make clean                             remove build/

DIR ?= ./export
ARGS ?=
SOAK_ROUNDS ?= 20
SOAK_SCHEDULES ?= 200000
PARTS ?= all
TARGETS = penstock libpenstock

.PHONY: serve release deb test test-all bench fuzz soak coverage format lint clean
.DEFAULT_GOAL := release

# Without tests, so that serving needs no test library.
release:
	@scripts/install-deps build
	@cmake --preset release -DPENSTOCK_BUILD_TESTS=OFF >/dev/null
	@cmake --build --preset release --target $(TARGETS)

serve: TARGETS = penstock
serve: release
	@[ -e "$(DIR)" ] || { echo "make serve: $(DIR) does not exist yet, making it"; mkdir -p "$(DIR)"; }
	@exec build/release/src/cli/penstock serve "$(DIR)" $(ARGS)

test:
	@scripts/run-tests gate

test-all:
	@scripts/run-tests $(or $(PARTS),all)

fuzz coverage lint:
	@scripts/run-tests $@

deb:
	@scripts/install-deps build deb package
	@scripts/make-deb
	@lintian --fail-on error,warning --info build/deb/*.changes

bench:
	@scripts/install-deps build bench
	@scripts/install-deps peers interop || echo "make bench: parts whose packages are missing are left out"
	@cmake --preset release -DPENSTOCK_BUILD_TESTS=OFF -DPENSTOCK_BUILD_BENCHMARKS=ON >/dev/null
	@cmake --build --preset release --target bench_programs penstock_bench sess01_bench
	@results=build/bench/run-$$(date -u +%Y%m%d-%H%M%S).json; bench/run $(BENCH) --json $$results; code=$$?; \
	    [ ! -e $$results ] || bench/page --from $$results && exit $$code

# Repeats the tests under AddressSanitizer to find rare failures. It uses g++, the compiler of the released program; `make test` uses
# clang.
soak:
	@scripts/install-deps build test
	@cmake --preset asan -B build/soak -DCMAKE_CXX_COMPILER=g++ -DCMAKE_CXX_FLAGS_DEBUG="-O1 -g1" \
	    -DPENSTOCK_BUILD_FUZZERS=OFF >/dev/null && cmake --build build/soak
	@build/soak/tests/sim/sim_schedules --seed $$(date +%s%N) --count $(SOAK_SCHEDULES)
	@ctest --test-dir build/soak -LE 'interop|sim' --repeat until-fail:$(SOAK_ROUNDS) --output-on-failure

format:
	@scripts/install-deps lint
	@clang-format-19 -i $$(git ls-files '*.cc' '*.cpp' '*.c' '*.h' '*.hpp')

clean:
	@rm -rf build
