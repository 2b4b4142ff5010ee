# One CMake target per folder of src/.

add_library(penstock_options INTERFACE)
target_compile_options(penstock_options INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual -Wnull-dereference -Wimplicit-fallthrough
  $<$<BOOL:${PENSTOCK_WERROR}>:-Werror>)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # g++ 12 has false positives in inlined standard containers and coroutine frames.
  target_compile_options(penstock_options INTERFACE -Wno-maybe-uninitialized -Wno-null-dereference -Wno-array-bounds
    -Wno-stringop-overflow -Wno-stringop-overread -Wno-restrict
    -Wno-dangling-pointer -Wno-subobject-linkage)
endif()
if(PENSTOCK_SANITIZE)
  # Without vptr: its check needs free descriptors, and takes objects for invalid in tests of their shortage.
  target_compile_options(penstock_options INTERFACE -fsanitize=${PENSTOCK_SANITIZE} -fno-sanitize=vptr -fno-sanitize-recover=all
    -fno-omit-frame-pointer $<$<BOOL:$<TARGET_PROPERTY:PENSTOCK_TRUSTED>>:-fno-sanitize=undefined>)
  target_link_options(penstock_options INTERFACE -fsanitize=${PENSTOCK_SANITIZE})
  target_compile_definitions(penstock_options INTERFACE PENSTOCK_SANITIZED)
endif()
penstock_release_flags(penstock_options)
# Without this, asio would use std::aligned_alloc in some files and not in others, depending on their includes.
target_compile_definitions(penstock_options INTERFACE ASIO_STANDALONE ASIO_NO_DEPRECATED ASIO_DISABLE_STD_ALIGNED_ALLOC)
# src/base/asio.cc compiles the parts of Asio that are not templates.
target_compile_definitions(penstock_options INTERFACE ASIO_SEPARATE_COMPILATION)
target_include_directories(penstock_options SYSTEM INTERFACE)
target_include_directories(penstock_options INTERFACE ${PROJECT_SOURCE_DIR}/src)
target_link_libraries(penstock_options INTERFACE Threads::Threads fmt::fmt)

if(PENSTOCK_BUILD_TESTS)
  find_package(GTest REQUIRED)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  # lld links a test in a fourth of GNU ld's time.
  string(REGEX MATCH "^[0-9]+" major ${CMAKE_CXX_COMPILER_VERSION})
  find_program(PENSTOCK_LLD NAMES ld.lld-${major} ld.lld)
  if(PENSTOCK_LLD)
    target_link_options(penstock_options INTERFACE --ld-path=${PENSTOCK_LLD})
  endif()
endif()
include(${CMAKE_CURRENT_LIST_DIR}/precompiled.cmake)

# penstock_module(rpc DEPENDS xdr [SOURCES a.cc ...] [HEADERS a.h ...]
#                 [TESTS a_test.cc ...] [TEST_DEPENDS ...] [TEST_HEADERS b.h ...] [SHARDS n])
# Makes a static library penstock_<name>; '/' in a name becomes '_'. Its tests become one executable <name>_test. HEADERS are
# precompiled for the library, and TEST_HEADERS for its tests.
function(penstock_module name)
  cmake_parse_arguments(ARG "" "SHARDS" "SOURCES;HEADERS;DEPENDS;LINK;TESTS;TEST_DEPENDS;TEST_HEADERS" ${ARGN})
  string(REPLACE "/" "_" target ${name})
  list(TRANSFORM ARG_DEPENDS PREPEND penstock_)
  list(TRANSFORM ARG_TEST_DEPENDS PREPEND penstock_)
  if(ARG_SOURCES)
    add_library(penstock_${target} STATIC ${ARG_SOURCES})
    target_link_libraries(penstock_${target} PUBLIC penstock_options ${ARG_DEPENDS} ${ARG_LINK})
    set_target_properties(penstock_${target} PROPERTIES UNITY_BUILD_BATCH_SIZE 40)
    penstock_guide_fuzzers(penstock_${target})
    penstock_precompile(penstock_${target} HEADERS ${ARG_HEADERS})
  else()
    add_library(penstock_${target} INTERFACE)
    target_link_libraries(penstock_${target} INTERFACE penstock_options ${ARG_DEPENDS} ${ARG_LINK})
  endif()
  if(PENSTOCK_BUILD_TESTS AND ARG_TESTS)
    add_executable(${target}_test ${ARG_TESTS})
    target_link_libraries(${target}_test PRIVATE penstock_${target} ${ARG_TEST_DEPENDS})
    penstock_unit_test(${name} ${target}_test HEADERS ${ARG_TEST_HEADERS} SHARDS ${ARG_SHARDS})
  endif()
endfunction()

# penstock_unit_test(name executable [HEADERS b.h ...] [SHARDS n]): adds ctest's test <name>.unit, which runs all cases in one process,
# because starting a sanitized program costs more than most cases. SHARDS: the number of processes, for cases that take long.
function(penstock_unit_test name executable)
  cmake_parse_arguments(ARG "" "SHARDS" "HEADERS" ${ARGN})
  target_link_libraries(${executable} PRIVATE GTest::gmock GTest::gtest_main)
  penstock_trust_tests(${executable})
  set_target_properties(${executable} PROPERTIES UNITY_BUILD_BATCH_SIZE 20)
  penstock_precompile(${executable} TEST HEADERS ${ARG_HEADERS})
  if(NOT ARG_SHARDS)
    set(ARG_SHARDS 1)
  endif()
  foreach(shard RANGE 1 ${ARG_SHARDS})
    set(test ${name}.unit)
    if(ARG_SHARDS GREATER 1)
      string(APPEND test ${shard})
    endif()
    math(EXPR index "${shard} - 1")
    add_test(NAME ${test} COMMAND ${executable} --gtest_output=xml:${PROJECT_BINARY_DIR}/results/${test}.xml)
    set_tests_properties(${test} PROPERTIES LABELS "unit;gate" TIMEOUT 1200 FIXTURES_REQUIRED conformance
      ENVIRONMENT "GTEST_TOTAL_SHARDS=${ARG_SHARDS};GTEST_SHARD_INDEX=${index}")
  endforeach()
endfunction()

# penstock_kerberos_test(name SOURCES a_test.cc ... [DEPENDS ...]): adds ctest's test <name>.kerberos, which runs in its own realm, and is
# skipped (77) without a KDC.
function(penstock_kerberos_test name)
  if(NOT PENSTOCK_BUILD_TESTS)
    return()
  endif()
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPENDS" ${ARGN})
  string(REPLACE "/" "_" executable ${name}_kerberos_test)
  list(TRANSFORM ARG_DEPENDS PREPEND penstock_)
  add_executable(${executable} ${ARG_SOURCES})
  target_link_libraries(${executable} PRIVATE ${ARG_DEPENDS} GTest::gmock GTest::gtest_main)
  penstock_trust_tests(${executable})
  penstock_precompile(${executable} TEST)
  set(test ${name}.kerberos)
  add_test(NAME ${test} COMMAND /usr/bin/python3 -B ${PROJECT_SOURCE_DIR}/tests/harness/kerberos.py run --
    $<TARGET_FILE:${executable}> --gtest_output=xml:${PROJECT_BINARY_DIR}/results/${test}.xml)
  set_tests_properties(${test} PROPERTIES LABELS "unit;gate" TIMEOUT 1200 SKIP_RETURN_CODE 77)
endfunction()

# penstock_e2e_program(target): builds the target with `e2e_programs`, and with the target `all` unless it is sanitized: the gate runs
# sanitized unit tests only.
add_custom_target(e2e_programs)
function(penstock_e2e_program target)
  add_dependencies(e2e_programs ${target})
  if(PENSTOCK_SANITIZE)
    set_target_properties(${target} PROPERTIES EXCLUDE_FROM_ALL ON)
  endif()
endfunction()

# penstock_trust_tests(executable): compiles the tests themselves without UBSan, which saves a quarter of their compilation time. The
# libraries that they test have it.
function(penstock_trust_tests executable)
  if(PENSTOCK_SANITIZE MATCHES "undefined")
    set_target_properties(${executable} PROPERTIES PENSTOCK_TRUSTED ON)
  endif()
endfunction()

# penstock_guide_fuzzers(target): instruments the library, so that libFuzzer sees which of its code an input reaches, and the operands of
# its comparisons. Without PENSTOCK_GUIDE_FUZZERS, the fuzz targets see only themselves, and change their seeds almost blindly.
function(penstock_guide_fuzzers target)
  if(PENSTOCK_BUILD_FUZZERS AND PENSTOCK_GUIDE_FUZZERS)
    target_compile_options(${target} PRIVATE -fsanitize=fuzzer-no-link)
  endif()
endfunction()

# penstock_fuzzer(xdr_decode SOURCES xdr_decode.cc DEPENDS xdr): adds fuzz/fuzz_<name>, with libFuzzer, and with seeds in
# fuzz/seeds/<name>. The target `fuzzers` builds all of them.
function(penstock_fuzzer name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPENDS" ${ARGN})
  list(TRANSFORM ARG_DEPENDS PREPEND penstock_)
  add_executable(fuzz_${name} ${ARG_SOURCES})
  target_link_libraries(fuzz_${name} PRIVATE penstock_options ${ARG_DEPENDS})
  target_compile_options(fuzz_${name} PRIVATE -fsanitize=fuzzer-no-link)
  penstock_precompile(fuzz_${name} FUZZER)
  target_link_options(fuzz_${name} PRIVATE -fsanitize=fuzzer)
  add_dependencies(fuzzers fuzz_${name})
endfunction()
