// For tests of the C API: a whole server with a file system in memory, in the process of the test, on threads of its
// own.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "fs/faulty/file_system.h"
#include "penstock/penstock.h"
#include "server/server.h"
#include "server/test_server.h"

namespace penstock::library {

// Files that go wrong on demand, also in ways of a whole server.
class TestFiles final : public fs::faulty::FileSystem {
 public:
  using fs::faulty::FileSystem::FileSystem;

  // From now on WRITE and COMMIT have another verifier, as if the server had restarted (RFC 1813 §4.11).
  void LoseUncommitted() { ++losses_; }
  // From now on all objects claim to have this size.
  void Claim(uint64_t size) { claimed_ = size; }

  Task<fs::Result<fs::Attributes>> GetAttributes(const fs::RequestContext& context, const fs::Handle& object) override;
  Task<fs::Changed<fs::WriteReply>> Write(const fs::RequestContext& context, const fs::Handle& file, uint64_t offset,
                                          const Data& data, fs::Stability stability) override;
  Task<fs::Changed<fs::WriteVerifier>> Commit(const fs::RequestContext& context, const fs::Handle& file) override;

 private:
  std::atomic<uint64_t> losses_ = 0;
  std::atomic<uint64_t> claimed_ = 0;
};

class TestServer {
 public:
  TestServer();
  ~TestServer();

  // Restarts the server, at the same ports, with the same files.
  void Restart();
  void Stop();
  void Start();

  // A URL of the export, with options such as "vers=3&proto=rdma".
  std::string Url(std::string_view options, std::string_view path = "/") const;
  TestFiles& files() { return *files_; }
  // Ends the wait of calls that hang, and lets none hang any more.
  void Release();

 private:
  const TemporaryDirectory directory_;
  const server::KeptPort tcp_port_, rdma_port_, mount_port_;
  const std::shared_ptr<TestFiles> files_;
  std::unique_ptr<server::Server> server_;
};

// Receives the result of one operation.
class Done {
 public:
  // A call that this object receives the result of.
  penstock_call Call(int64_t timeout_ms = -1, penstock_cancellation* cancellation = nullptr);
  bool is_done() const;
  // Waits for the result. Dispatches if the host drives the runtime.
  int64_t Wait(penstock_runtime* runtime);
  // After Wait().
  const std::string& error() const { return error_; }

 private:
  static void Receive(void* context, int64_t result, const char* error);

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  int times_ = 0;
  int64_t result_ = 0;
  std::string error_;
};

// How a test uses the library.
struct Use {
  const char* name;
  unsigned threads;
  const char* options;  // of the URL
};
inline std::string NameOf(const testing::TestParamInfo<Use>& info) { return info.param.name; }

class LibraryTest : public testing::TestWithParam<Use> {
 protected:
  LibraryTest();
  ~LibraryTest() override;

  void OpenMount(std::string_view path = "/");
  void CloseMount();
  penstock_file* Open(const char* path, int flags, uint32_t mode = 0644);
  void Write(const char* path, std::string_view contents);
  std::string Read(const char* path);
  int64_t Wait(Done& done) { return done.Wait(runtime); }

  TestServer server;
  penstock_runtime* runtime = nullptr;
  penstock_mount* mount = nullptr;
};

}  // namespace penstock::library
