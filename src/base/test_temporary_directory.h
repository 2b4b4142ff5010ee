// For tests: a directory of their own.
#pragma once

#include <stdlib.h>

#include <filesystem>
#include <string>
#include <system_error>

namespace penstock {

class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    char name[] = "/var/tmp/penstock-server-test-XXXXXX";
    path_ = ::mkdtemp(name);
  }
  ~TemporaryDirectory() { std::filesystem::remove_all(path_); }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace penstock
