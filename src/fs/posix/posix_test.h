// The fixture for tests of properties that only a served directory has. A test changes files directly, as other
// programs on the host do. file_system_test.cc names the places and options that the tests run with.
#pragma once

#include <filesystem>
#include <fstream>
#include <memory>
#include <string_view>

#include "fs/posix/test_backend.h"
#include "fs/suite/fixture.h"

namespace penstock::fs {

class PosixTest : public suite::FileSystemSuite {
 protected:
  posix::PosixBackend& backend() { return static_cast<posix::PosixBackend&>(*backend_); }
  std::filesystem::path exported() { return backend().scratch().exported(); }
  std::filesystem::path outside() { return backend().scratch().outside(); }
  // Starts another backend for tests that need other options than their parameter has.
  void Replace(const char* where, const posix::Options& options) {
    backend_ = std::make_unique<posix::PosixBackend>(where, options);
    root_ = fs().Root();
    caller_ = As(0, 0);
  }
  static void WriteFile(const std::filesystem::path& path, std::string_view text) { std::ofstream(path) << text; }
};

}  // namespace penstock::fs
