// For tests of mounts: a fixture that mounts a TestService and runs coroutines to their end.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/loop.h"
#include "base/test_loop.h"
#include "base/workers.h"
#include "client/mount.h"
#include "client/service_test_support.h"
#include "protocol/nfs3.h"
#include "protocol/nfs4.h"

namespace penstock::client {

// Mounts the service and runs coroutines to their end.
class MountTestBase : public testing::Test {
 protected:
  explicit MountTestBase(TestService::Options service_options) : service(loop, std::move(service_options)) {}
  MountTestBase() : MountTestBase(TestService::Options()) {}
  ~MountTestBase() override;

  Url UrlOf(Version version, std::string path = "/") const;
  Result<std::unique_ptr<Mount>> TryToOpen(const Url& url);
  // Opens the mount that the other functions use.
  void Open(const Url& url);
  // Opens a mount, which must fail, and returns the error.
  Error ErrorOfOpening(const Url& url);

  template <class T>
  T Run(Task<T> task) {
    std::optional<T> result;
    Spawn([](Task<T> inner, std::optional<T>& out) -> Task<void> { out.emplace(co_await std::move(inner)); }(
                                                       std::move(task), result));
    EXPECT_TRUE(TurnUntil(loop, [&] { return result.has_value(); }));
    return *std::move(result);
  }
  void Run(Task<void> task);
  // Returns the result of a task that must succeed. An error ends the test by an exception.
  template <class T>
  T Do(Task<Result<T>> task) {
    Result<T> result = Run(std::move(task));
    if (!result) throw std::runtime_error(result.error().message);
    if constexpr (!std::is_void_v<T>) return *std::move(result);
  }
  // Returns the error of a task that must fail.
  template <class T>
  Error ErrorOf(Task<Result<T>> task) {
    Result<T> result = Run(std::move(task));
    EXPECT_FALSE(result);
    return result ? Error() : std::move(result).error();
  }

  const Handle& root() const { return mount->root(); }
  std::unique_ptr<File> Create(std::string_view name, std::string_view text = {});
  std::unique_ptr<File> OpenFile(std::string_view name, Access access = Access::kBoth);
  std::string Read(File& file, size_t at_most = 4096);
  Result<File::WriteReply> Write(File& file, std::string_view text, uint64_t offset = 0);
  // Returns the sorted names in the root.
  std::vector<std::string> List();
  void Unmount();

  Loop loop;
  Workers workers{2};
  TestService service;
  MountOptions options{.retry = {.first_delay = std::chrono::milliseconds(1),
                                 .longest_delay = std::chrono::milliseconds(5),
                                 .give_up_after = std::chrono::seconds(20)}};
  std::unique_ptr<Mount> mount;
};

// The name of a version in names of tests.
std::string NameOf(Version version);

// A mount of the version that is the parameter of the test. Its matchers select the calls of one kind in that version.
class VersionedMountTest : public MountTestBase, public testing::WithParamInterface<Version> {
 protected:
  explicit VersionedMountTest(TestService::Options service_options) : MountTestBase(std::move(service_options)) {
    Open(UrlOf(GetParam()));
  }
  VersionedMountTest() : VersionedMountTest(TestService::Options()) {}

  static bool is_version_3() { return GetParam() == Version::k3; }
  static CallMatcher Reads() {
    return is_version_3() ? CallsOf<nfs3::NFSPROC3_READ>() : CompoundsWith(nfs4::nfs_opnum4::OP_READ);
  }
  static CallMatcher Writes() {
    return is_version_3() ? CallsOf<nfs3::NFSPROC3_WRITE>() : CompoundsWith(nfs4::nfs_opnum4::OP_WRITE);
  }
  static CallMatcher AttributeQueries() {
    return is_version_3() ? CallsOf<nfs3::NFSPROC3_GETATTR>() : CompoundsWith(nfs4::nfs_opnum4::OP_GETATTR);
  }
  static CallMatcher Listings() {
    return is_version_3() ? CallsOf<nfs3::NFSPROC3_READDIRPLUS>() : CompoundsWith(nfs4::nfs_opnum4::OP_READDIR);
  }
  Result<Attributes> GetAttributes() { return Run(mount->GetAttributes(root(), "root")); }
};

}  // namespace penstock::client
