// The fixture for tests of a served directory on a disk that fails or hangs.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/failing_disk.h"
#include "fs/posix/test_backend.h"
#include "fs/suite/fixture.h"

namespace penstock::fs::posix {

class FailingDiskTest : public suite::FileSystemSuite {
 protected:
  FailingDiskTest() = default;

  std::string PathOf(std::string_view name) { return backend().scratch().exported() / name; }
  PosixBackend& backend() { return static_cast<PosixBackend&>(*backend_); }

  // Makes a file of a million octets that are on the disk.
  Handle MakeLarge(std::string_view name) {
    const Handle file = Make(root_, name);
    EXPECT_TRUE(Write(file, 0, suite::Pattern(kLarge), Stability::kFileSync).result);
    return file;
  }
  void FailReads(DiskFault fault) {
    for (const DiskCall call : {DiskCall::kRead, DiskCall::kReadVector}) {
      fault.call = call;
      disk_.Fail(fault);
    }
  }
  std::optional<Error> ReadError(const Handle& file, uint64_t offset, uint32_t count) {
    return suite::ErrorOf(Read(file, offset, count).result);
  }

  Task<void> CommitTo(Handle file, std::optional<Result<WriteVerifier>>& result) {
    const auto committed = co_await fs().Commit(caller_, file);
    result = committed.result;
  }

  static constexpr uint32_t kLarge = 1'000'000;
  FailingDisk disk_;
};

inline suite::Parameter OnDisk(std::string name, HandleMethod handles) {
  return {std::move(name), [handles] { return std::make_unique<PosixBackend>(kDisk, With(handles)); }};
}

}  // namespace penstock::fs::posix
