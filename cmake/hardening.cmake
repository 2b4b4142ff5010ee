# Flags of programs that are released: hardening, and debug information and messages without the folders of the build.
# They stay out of sanitized builds, whose sanitizers check more, and of unoptimized ones, in which _FORTIFY_SOURCE does nothing, and
# whose counters and debuggers need the real folders.
include(CheckCXXCompilerFlag)

set(PENSTOCK_IS_RELEASED ON)
if(PENSTOCK_SANITIZE OR CMAKE_BUILD_TYPE STREQUAL "Debug")
  set(PENSTOCK_IS_RELEASED OFF)
endif()
option(PENSTOCK_HARDENING "Compile and link optimized programs with hardening flags" ON)

# penstock_release_flags(target): adds the flags to everything that uses the interface library `target`.
function(penstock_release_flags target)
  if(NOT PENSTOCK_IS_RELEASED)
    return()
  endif()
  # Of two prefixes that match, the compilers use the last: the build folder may lie in the source folder.
  target_compile_options(${target} INTERFACE -ffile-prefix-map=${PROJECT_SOURCE_DIR}=.
    -ffile-prefix-map=${PROJECT_BINARY_DIR}=build)
  if(NOT PENSTOCK_HARDENING)
    return()
  endif()
  # A distribution's flags may define the macro with another value.
  target_compile_options(${target} INTERFACE -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3)
  # -fcf-protection exists on x86, and -mbranch-protection on ARM.
  foreach(flag -fstack-protector-strong -fstack-clash-protection -fcf-protection -mbranch-protection=standard)
    string(MAKE_C_IDENTIFIER "PENSTOCK_HAS${flag}" has)
    check_cxx_compiler_flag(${flag} ${has})
    if(${has})
      target_compile_options(${target} INTERFACE ${flag})
    endif()
  endforeach()
  target_link_options(${target} INTERFACE -Wl,-z,relro,-z,now)
endfunction()

# With CMAKE_POSITION_INDEPENDENT_CODE, this links executables with -pie.
if(PENSTOCK_IS_RELEASED AND PENSTOCK_HARDENING)
  include(CheckPIESupported)
  check_pie_supported(LANGUAGES CXX)
endif()
