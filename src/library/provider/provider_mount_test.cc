// A server and mounts of one process over a provider of the host.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>

#include "library/provider/provider_test_support.h"
#include "penstock/penstock.h"
#include "penstock/server.h"
#include "server/test_server.h"

namespace penstock::library {
namespace {

struct Free {
  void operator()(penstock_server* server) const { penstock_server_free(server); }
  void operator()(penstock_runtime* runtime) const { EXPECT_EQ(penstock_runtime_free(runtime), 0); }
  void operator()(penstock_mount* mount) const { EXPECT_EQ(penstock_mount_close(mount, nullptr), 0); }
  void operator()(penstock_file* file) const { EXPECT_EQ(penstock_close(file, nullptr), 0); }
};
using Server = std::unique_ptr<penstock_server, Free>;
using Runtime = std::unique_ptr<penstock_runtime, Free>;
using Mount = std::unique_ptr<penstock_mount, Free>;
using File = std::unique_ptr<penstock_file, Free>;

std::string Contents(size_t size, uint32_t seed) {
  std::string contents(size, '\0');
  for (char& each : contents) {
    seed = seed * 1664525 + 1013904223;
    each = static_cast<char>(seed >> 24);
  }
  return contents;
}

class ProviderMountTest : public testing::TestWithParam<std::string> {
 protected:
  ProviderMountTest() {
    penstock_server_options options = PENSTOCK_SERVER_OPTIONS_INIT;
    options.state_directory = state_.c_str();
    options.tcp = "";
    options.mount = "127.0.0.1:0";
    options.rdma = "127.0.0.1:0";
    options.threads = 2;
    options.grace_seconds = options.lease_seconds = 1;
    options.provider = network_.provider();
    penstock_server* made = nullptr;
    EXPECT_EQ(penstock_server_new(&options, &made), 0) << penstock_error_text();
    server_.reset(made);
    std::filesystem::create_directory(served_);
    EXPECT_EQ(penstock_server_export_directory(made, "/", served_.c_str(), "*(rw,insecure,no_root_squash)"), 0);
    EXPECT_EQ(penstock_server_start(made), 0) << penstock_error_text();
  }

  uint16_t PortOf(penstock_service service) const {
    std::array<char, 64> text{};
    EXPECT_GT(penstock_server_address(server_.get(), service, 0, text.data(), text.size()), 0);
    return static_cast<uint16_t>(std::stoi(std::string(std::strrchr(text.data(), ':') + 1)));
  }
  Runtime MakeRuntime(unsigned threads = 2) const {
    penstock_runtime_options options = PENSTOCK_RUNTIME_OPTIONS_INIT;
    options.threads = threads;
    options.provider = network_.provider();
    penstock_runtime* made = nullptr;
    EXPECT_EQ(penstock_runtime_new(&options, &made), 0) << penstock_error_text();
    return Runtime(made);
  }
  Mount Open(const Runtime& runtime) const {
    const std::string url = "nfs://127.0.0.1:" + std::to_string(PortOf(PENSTOCK_SERVICE_RDMA)) +
                            "/?proto=rdma&vers=" + GetParam() +
                            "&mountport=" + std::to_string(PortOf(PENSTOCK_SERVICE_MOUNT));
    penstock_mount* mount = nullptr;
    EXPECT_EQ(penstock_mount_open(runtime.get(), url.c_str(), nullptr, &mount, nullptr), 0) << penstock_error_text();
    return Mount(mount);
  }
  static File OpenFile(const Mount& mount, const char* name) {
    penstock_file* file = nullptr;
    EXPECT_EQ(penstock_open(mount.get(), name, O_RDWR | O_CREAT, 0644, &file, nullptr), 0) << penstock_error_text();
    return File(file);
  }
  static void Write(const File& file, std::string_view contents, uint64_t offset) {
    EXPECT_EQ(penstock_pwrite(file.get(), contents.data(), contents.size(), offset, nullptr),
              static_cast<int64_t>(contents.size()))
        << penstock_error_text();
  }
  static std::string Read(const File& file, size_t size, uint64_t offset) {
    std::string read(size, '\0');
    const int64_t length = penstock_pread(file.get(), read.data(), size, offset, nullptr);
    EXPECT_EQ(length, static_cast<int64_t>(size)) << penstock_error_text();
    return read;
  }
  std::string Served(const std::string& name) const {
    std::ifstream file(served_ / name, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  const TemporaryDirectory directory_;
  const std::filesystem::path state_ = directory_.path() / "state", served_ = directory_.path() / "served";
  LoopbackNetwork network_;
  Server server_;
};

TEST_P(ProviderMountTest, FilesOfAllSizesGoThroughTheNetwork) {
  const Runtime runtime = MakeRuntime();
  const Mount mount = Open(runtime);
  const File file = OpenFile(mount, "file");
  uint64_t offset = 0;
  std::string whole;
  for (const size_t size :
       {size_t{1}, size_t{1000}, size_t{4097}, size_t{70'000}, size_t{1} << 20, size_t{9'000'001}}) {
    const std::string contents = Contents(size, static_cast<uint32_t>(size));
    Write(file, contents, offset);
    EXPECT_TRUE(Read(file, size, offset) == contents) << size;
    offset += size;
    whole += contents;
  }
  EXPECT_EQ(penstock_fsync(file.get(), nullptr), 0) << penstock_error_text();
  EXPECT_TRUE(Served("file") == whole);
  EXPECT_GT(network_.moved(), 2 * whole.size());
}

TEST_P(ProviderMountTest, AMountReconnectsAfterALoss) {
  const Runtime runtime = MakeRuntime(1);
  const Mount mount = Open(runtime);
  const File file = OpenFile(mount, "file");
  for (uint32_t round = 0; round < 4; ++round) {
    const std::string contents = Contents(2'000'000, round);
    Write(file, contents, 0);
    network_.LoseAll();
    EXPECT_TRUE(Read(file, contents.size(), 0) == contents) << round;
  }
}

TEST_P(ProviderMountTest, LossesWhileDataMoveAreMended) {
  const Runtime runtime = MakeRuntime(1);
  const Mount mount = Open(runtime);
  const File file = OpenFile(mount, "file");
  const std::string contents = Contents(6'000'000, 1);
  {
    std::jthread losses([&](const std::stop_token& stop) {
      for (int i = 0; i < 5 && !stop.stop_requested(); ++i) {
        std::this_thread::sleep_for(std::chrono::milliseconds(3));
        network_.LoseAll();
      }
    });
    Write(file, contents, 0);
  }
  EXPECT_EQ(penstock_fsync(file.get(), nullptr), 0) << penstock_error_text();
  EXPECT_TRUE(Read(file, contents.size(), 0) == contents);
  EXPECT_TRUE(Served("file") == contents);
}

TEST_P(ProviderMountTest, ADrivenRuntimeUsesTheProvider) {
  const Runtime runtime = MakeRuntime(0);
  const Mount mount = Open(runtime);
  const File file = OpenFile(mount, "file");
  const std::string contents = Contents(500'000, 5);
  Write(file, contents, 0);
  EXPECT_TRUE(Read(file, contents.size(), 0) == contents);
}

TEST_P(ProviderMountTest, ManyMountsShareTheProvider) {
  const Runtime runtime = MakeRuntime(2);
  for (uint32_t i = 0; i < 6; ++i) {
    const Mount first = Open(runtime), second = Open(runtime);
    const File file = OpenFile(first, "file");
    const std::string contents = Contents(100'000, i);
    Write(file, contents, 0);
    const File other = OpenFile(second, "file");
    EXPECT_TRUE(Read(other, contents.size(), 0) == contents) << i;
  }
}

TEST_P(ProviderMountTest, AServerThatIsGoneIsAClearError) {
  const Runtime runtime = MakeRuntime(1);
  EXPECT_EQ(penstock_server_stop(server_.get()), 0);
  penstock_mount* mount = nullptr;
  const std::string url = "nfs://127.0.0.1:20049/?proto=rdma&vers=" + GetParam() + "&mountport=1";
  const int result = penstock_mount_open(runtime.get(), url.c_str(), nullptr, &mount, nullptr);
  EXPECT_EQ(result, -ECONNREFUSED) << penstock_error_text();
  EXPECT_THAT(penstock_error_text(), testing::HasSubstr("refused"));
}

TEST_P(ProviderMountTest, AServerStopsAndStartsAgain) {
  const Runtime runtime = MakeRuntime(1);
  for (int i = 0; i < 3; ++i) {
    {
      const Mount mount = Open(runtime);
      const File file = OpenFile(mount, "file");
      Write(file, "text", 0);
    }
    EXPECT_EQ(penstock_server_stop(server_.get()), 0);
    EXPECT_EQ(penstock_server_start(server_.get()), 0) << penstock_error_text();
  }
}

INSTANTIATE_TEST_SUITE_P(Versions, ProviderMountTest, testing::Values("3", "4.0", "4.2"),
                         [](const auto& test) { return test.param == "3" ? "v3" : "v4_" + test.param.substr(2); });

}  // namespace
}  // namespace penstock::library
