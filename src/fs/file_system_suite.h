// One test suite for all file systems. The test of a file system includes this file once and names its parameters:
// PENSTOCK_FILE_SYSTEM_SUITE(Memory, testing::Values(Parameter{"Memory", MakeMemory}));
#pragma once

#include "fs/suite/attributes_suite.h"
#include "fs/suite/data_suite.h"
#include "fs/suite/directory_suite.h"
#include "fs/suite/names_suite.h"
#include "fs/suite/open_suite.h"
#include "fs/suite/space_suite.h"
#include "fs/suite/xattrs_suite.h"

#define PENSTOCK_FILE_SYSTEM_SUITE(prefix, ...)                           \
  namespace penstock::fs::suite {                                         \
  INSTANTIATE_TEST_SUITE_P(prefix, AttributesSuite, __VA_ARGS__, NameOf); \
  INSTANTIATE_TEST_SUITE_P(prefix, NamesSuite, __VA_ARGS__, NameOf);      \
  INSTANTIATE_TEST_SUITE_P(prefix, DataSuite, __VA_ARGS__, NameOf);       \
  INSTANTIATE_TEST_SUITE_P(prefix, DirectorySuite, __VA_ARGS__, NameOf);  \
  INSTANTIATE_TEST_SUITE_P(prefix, OpenSuite, __VA_ARGS__, NameOf);       \
  INSTANTIATE_TEST_SUITE_P(prefix, SpaceSuite, __VA_ARGS__, NameOf);      \
  INSTANTIATE_TEST_SUITE_P(prefix, XattrsSuite, __VA_ARGS__, NameOf);     \
  INSTANTIATE_TEST_SUITE_P(prefix, AclsSuite, __VA_ARGS__, NameOf);       \
  }
