# The version that `penstock --version` prints, for example "0.1.0 (git a12272af)". Each build asks git, so that the commit is always that
# of the sources. Only the program's main file is compiled again for another commit.
#
# The commit comes from, in this order: -DPENSTOCK_COMMIT=...; git, if the source folder is the top of a repository; cmake/commit.txt,
# into which `git archive` writes it. Without any of them there is only the version.
# "modified" stands behind the commit if the sources have changes that it has not.
#
# This file is also the script that the build runs: cmake -P with SOURCE, OUTPUT, VERSION, COMMIT.
if(NOT CMAKE_SCRIPT_MODE_FILE)
  set(PENSTOCK_COMMIT "" CACHE STRING "The commit of the sources; empty: git tells it")
  set(PENSTOCK_VERSION_FOLDER ${PROJECT_BINARY_DIR}/generated/version)
  add_custom_target(penstock_version
    COMMAND ${CMAKE_COMMAND} -DSOURCE=${PROJECT_SOURCE_DIR} -DOUTPUT=${PENSTOCK_VERSION_FOLDER}/penstock_version.h
      -DVERSION=${PROJECT_VERSION} "-DCOMMIT=${PENSTOCK_COMMIT}" -P ${CMAKE_CURRENT_LIST_FILE}
    BYPRODUCTS ${PENSTOCK_VERSION_FOLDER}/penstock_version.h
    COMMENT "Asking git for the commit")
  return()
endif()

set(modified "")
if(NOT COMMIT AND EXISTS ${SOURCE}/.git)
  # The sources may belong to another user, as in a container.
  set(git git -C ${SOURCE} -c safe.directory=${SOURCE})
  execute_process(COMMAND ${git} rev-parse HEAD OUTPUT_VARIABLE COMMIT OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  execute_process(COMMAND ${git} diff --quiet HEAD -- RESULT_VARIABLE differs OUTPUT_QUIET ERROR_QUIET)
  if(differs STREQUAL "1")
    set(modified ", modified")
  endif()
endif()
if(NOT COMMIT AND EXISTS ${SOURCE}/cmake/commit.txt)
  file(STRINGS ${SOURCE}/cmake/commit.txt COMMIT REGEX "^[0-9a-f]+$" LIMIT_COUNT 1)
endif()
set(text ${VERSION})
if(COMMIT MATCHES "^([0-9a-f]+)(, modified)?$")
  string(SUBSTRING ${CMAKE_MATCH_1} 0 8 short)
  string(APPEND text " (git ${short}${CMAKE_MATCH_2}${modified})")
endif()
set(header "// Made by cmake/version.cmake.\n#define PENSTOCK_VERSION \"${text}\"\n")
set(before "")
if(EXISTS ${OUTPUT})
  file(READ ${OUTPUT} before)
endif()
if(NOT before STREQUAL header)
  file(WRITE ${OUTPUT} "${header}")
endif()
