// For tests of commands: a server with a file system in memory, on the loop of a command, and its mounts.
#pragma once

#include <gtest/gtest.h>

#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include "base/test_loop.h"
#include "cli/mounts.h"
#include "client/service_test_support.h"

namespace penstock::cli {

class MountsTestBase : public testing::TestWithParam<client::Version> {
 protected:
  explicit MountsTestBase(client::TestService::Options options) : service(runtime.loop(), std::move(options)) {}
  MountsTestBase() : MountsTestBase(client::TestService::Options()) {}
  ~MountsTestBase() override {
    Run([](Mounts& all) -> Task<bool> {
      co_await all.Close();
      co_return true;
    }(mounts));
    TurnFor(runtime.loop(), Duration::zero());
  }

  client::Url UrlOf(std::string path) const {
    client::Url url;
    url.host = "127.0.0.1";
    url.port = url.mount_port = service.port();
    url.path = std::move(path);
    url.version = GetParam();
    url.uid = url.gid = 0;
    url.reserved_port = false;
    url.timeout = 20;
    return url;
  }
  // The name of a URL in messages.
  std::string NameOfPath(const std::string& path) const { return NameOf(UrlOf(path)); }

  template <class T>
  T Run(Task<T> task) {
    std::optional<T> result;
    Spawn([](Task<T> inner, std::optional<T>& out) -> Task<void> { out.emplace(co_await std::move(inner)); }(
                                                       std::move(task), result));
    EXPECT_TRUE(TurnUntil(runtime.loop(), [&] { return result.has_value(); }));
    return *std::move(result);
  }
  // Returns the result of a task that must succeed. An error ends the test by an exception.
  template <class T>
  T Do(Task<client::Result<T>> task) {
    client::Result<T> result = Run(std::move(task));
    if (!result) throw std::runtime_error(result.error().message);
    if constexpr (!std::is_void_v<T>) return *std::move(result);
  }
  Mounted At(const std::string& path) { return Do(mounts.At(UrlOf(path))); }

  // Both return the handle of the new object. The directory of the path exists.
  client::Handle MakeDirectory(const std::string& path) {
    const auto place = Do(At(path).ResolvePlace());
    return Do(At(path).mount->MakeDirectory(place.directory, place.name, 0755)).handle;
  }
  client::Handle MakeFile(const std::string& path, uint64_t size = 0) {
    const auto place = Do(At(path).ResolvePlace());
    const auto file = Do(At(path).mount->CreateFile(place.directory, place.name, 0644));
    const client::Handle handle = file->node().handle;
    Do(file->Close());
    client::NewAttributes attributes;
    attributes.size = size;
    if (size > 0) Do(At(path).mount->SetAttributes(handle, path, attributes));
    return handle;
  }
  void MakeSymlink(const std::string& path, const std::string& target) {
    const auto place = Do(At(path).ResolvePlace());
    Do(At(path).mount->MakeSymlink(place.directory, place.name, target));
  }

  ClientRuntime runtime;
  client::TestService service;
  Mounts mounts{runtime};
};

inline std::string NameOfVersion(const testing::TestParamInfo<client::Version>& test) {
  return test.param == client::Version::k3 ? "Version3" : "Version42";
}
// Version 3 has directories of READDIRPLUS, version 4 those of READDIR.
inline const auto kVersionsOfCommands = testing::Values(client::Version::k3, client::Version::k42);

}  // namespace penstock::cli
