#include "library/library_test_support.h"

#include <fmt/core.h>

#include <chrono>
#include <thread>
#include <utility>

#include "base/state_directory.h"
#include "base/workers.h"
#include "fs/memory/file_system.h"

namespace penstock::library {

Task<fs::Result<fs::Attributes>> TestFiles::GetAttributes(const fs::RequestContext& context, const fs::Handle& object) {
  auto attributes = co_await FileSystem::GetAttributes(context, object);
  if (attributes && claimed_ > 0) attributes->size = claimed_;
  co_return attributes;
}

Task<fs::Changed<fs::WriteReply>> TestFiles::Write(const fs::RequestContext& context, const fs::Handle& file,
                                                   uint64_t offset, const Data& data, fs::Stability stability) {
  auto written = co_await FileSystem::Write(context, file, offset, data, stability);
  if (written.result) written.result->verifier = fs::WriteVerifier(written.result->verifier.value() + losses_);
  co_return written;
}

Task<fs::Changed<fs::WriteVerifier>> TestFiles::Commit(const fs::RequestContext& context, const fs::Handle& file) {
  auto committed = co_await FileSystem::Commit(context, file);
  if (committed.result) committed.result = fs::WriteVerifier(committed.result->value() + losses_);
  co_return committed;
}

TestServer::TestServer()
    : files_(std::make_shared<TestFiles>(
          std::make_shared<fs::memory::FileSystem>(fs::memory::Options{.root_mode = 0777}))) {
  Start();
}

TestServer::~TestServer() { Stop(); }

void TestServer::Start() {
  auto state_directory = StateDirectory::Open(directory_.path() / "state");
  ASSERT_TRUE(state_directory) << state_directory.error().message;
  server::Parts parts{.state_directory = *std::move(state_directory), .pool = std::make_shared<Workers>(8)};
  parts.exports.push_back(
      {.path = "/", .admissions = {{.clients = {}, .options = {.squash = nfs::Squash::kNone}}}, .file_system = files_});
  server::Options options;
  options.listen =
      server::Addresses::At(asio::ip::address_v4::loopback(), tcp_port_.get(), rdma_port_.get(), mount_port_.get());
  options.drain_limit = std::chrono::milliseconds(200);
  auto made = server::Server::Make(options, std::move(parts));
  ASSERT_TRUE(made) << made.error().message;
  server_ = *std::move(made);
  server_->Start();
}

void TestServer::Stop() {
  if (!server_) return;
  Release();
  server_->Stop();
  server_.reset();
}

void TestServer::Restart() {
  Stop();
  Start();
}

void TestServer::Release() {
  files_->Clear();
  files_->Release();
}

std::string TestServer::Url(std::string_view options, std::string_view path) const {
  const bool is_rdma = options.find("proto=rdma") != options.npos;
  return fmt::format("nfs://127.0.0.1:{}{}?{}&mountport={}", is_rdma ? rdma_port_.get() : tcp_port_.get(), path,
                     options, mount_port_.get());
}

penstock_call Done::Call(int64_t timeout_ms, penstock_cancellation* cancellation) {
  penstock_call call = PENSTOCK_CALL_INIT;
  call.done = &Done::Receive;
  call.context = this;
  call.timeout_ms = timeout_ms;
  call.cancellation = cancellation;
  return call;
}

void Done::Receive(void* context, int64_t result, const char* error) {
  auto& self = *static_cast<Done*>(context);
  const std::lock_guard lock(self.mutex_);
  EXPECT_EQ(error != nullptr, result < 0);
  ++self.times_;
  self.result_ = result;
  self.error_ = error ? error : "";
  self.changed_.notify_one();
}

bool Done::is_done() const {
  const std::lock_guard lock(mutex_);
  return times_ > 0;
}

int64_t Done::Wait(penstock_runtime* runtime) {
  if (penstock_runtime_fd(runtime) >= 0) {
    while (!is_done()) penstock_runtime_dispatch(runtime, -1);
  }
  std::unique_lock lock(mutex_);
  EXPECT_TRUE(changed_.wait_for(lock, std::chrono::seconds(60), [&] { return times_ > 0; }));
  EXPECT_EQ(times_, 1);
  return result_;
}

LibraryTest::LibraryTest() {
  penstock_runtime_options options = PENSTOCK_RUNTIME_OPTIONS_INIT;
  options.threads = GetParam().threads;
  EXPECT_EQ(penstock_runtime_new(&options, &runtime), 0) << penstock_error_text();
  OpenMount();
}

LibraryTest::~LibraryTest() {
  server.Release();
  CloseMount();
  EXPECT_EQ(penstock_runtime_free(runtime), 0) << penstock_error_text();
}

void LibraryTest::OpenMount(std::string_view path) {
  const std::string url = server.Url(GetParam().options, path);
  ASSERT_EQ(penstock_mount_open(runtime, url.c_str(), nullptr, &mount, nullptr), 0) << penstock_error_text();
}

void LibraryTest::CloseMount() {
  EXPECT_EQ(penstock_mount_close(std::exchange(mount, nullptr), nullptr), 0) << penstock_error_text();
}

penstock_file* LibraryTest::Open(const char* path, int flags, uint32_t mode) {
  penstock_file* file = nullptr;
  EXPECT_EQ(penstock_open(mount, path, flags, mode, &file, nullptr), 0) << penstock_error_text();
  return file;
}

void LibraryTest::Write(const char* path, std::string_view contents) {
  EXPECT_EQ(penstock_write_file(mount, path, contents.data(), contents.size(), 0644, nullptr), 0)
      << penstock_error_text();
}

std::string LibraryTest::Read(const char* path) {
  void* data = nullptr;
  size_t size = 0;
  const int result = penstock_read_file(mount, path, &data, &size, nullptr);
  EXPECT_EQ(result, 0) << penstock_error_text();
  std::string contents;
  if (result == 0) contents.assign(static_cast<const char*>(data), size);
  penstock_free(data);
  return contents;
}

}  // namespace penstock::library
