# Precompiles the headers that most files include, which halves the time of a build. A build with ccache compiles each file alone, and
# `make lint` reads each file alone, so that a file with a missing include is found.
set(PENSTOCK_PRECOMPILE TRUE)
if(CMAKE_CXX_COMPILER_LAUNCHER)
  set(PENSTOCK_PRECOMPILE FALSE)
endif()

set(PENSTOCK_STANDARD_HEADERS <algorithm> <array> <atomic> <bit> <cassert> <charconv> <chrono> <coroutine> <cstddef> <cstdint>
  <cstring> <deque> <expected> <filesystem> <functional> <limits> <map> <memory> <mutex> <optional> <random> <set> <span>
  <string> <string_view> <system_error> <thread> <tuple> <type_traits> <unordered_map> <utility> <variant> <vector>)
set(PENSTOCK_LIBRARY_HEADERS <fmt/core.h>)
set(PENSTOCK_TEST_HEADERS <gmock/gmock.h> <gtest/gtest.h>)

# penstock_precompile(target [TEST | FUZZER] [HEADERS b.h ...]): with HEADERS, the target gets its own precompiled header. Otherwise it
# uses the one of all libraries, of all tests, or of all fuzz targets, which are compiled with different options.
function(penstock_precompile target)
  cmake_parse_arguments(ARG "TEST;FUZZER" "" "HEADERS" ${ARGN})
  if(NOT PENSTOCK_PRECOMPILE)
    return()
  endif()
  set(first penstock_base)
  set(headers ${PENSTOCK_STANDARD_HEADERS} ${PENSTOCK_LIBRARY_HEADERS})
  if(ARG_TEST)
    set(first base_test)
    list(APPEND headers ${PENSTOCK_TEST_HEADERS})
  endif()
  if(ARG_FUZZER)
    set(first fuzz_xdr_nfs3)
  endif()
  if(ARG_HEADERS OR target STREQUAL first)
    list(TRANSFORM ARG_HEADERS REPLACE "(.+)" "<\\1>")
    target_precompile_headers(${target} PRIVATE ${headers} ${ARG_HEADERS})
  else()
    target_precompile_headers(${target} REUSE_FROM ${first})
  endif()
endfunction()
