// Threads, memory and settings of a provider whose host is a script.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <stop_token>
#include <thread>
#include <vector>

#include "library/provider/host_provider_test_support.h"
#include "penstock/server.h"

namespace penstock::library {
namespace {

using testing::ElementsAre;

// ---- threads, memory, settings

TEST_F(HostProviderTest, AnyThreadMayTellAtAnyTime) {
  Connect();
  const uint64_t connection = script_.last().connection;
  std::jthread other([&](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      (void)penstock_provider_ended(host_, connection, nullptr);
      (void)penstock_provider_completed(host_, connection, 4);
    }
  });
  RunUntil([&] { return completions_.size() == 3; });
  endpoint_.reset();
  provider_.reset();
  Settle();
  other.request_stop();
}

TEST(HostProviderMemoryTest, BuffersAreMemoryOfTheHost) {
  Script script;
  penstock_provider_ops ops = Functions();
  ops.allocate = [](void* self, size_t size, size_t alignment) {
    ScriptOf(self).memory.emplace_back("allocate");
    return std::aligned_alloc(alignment, size);
  };
  ops.release = [](void* self, void* memory, size_t) {
    ScriptOf(self).memory.emplace_back("release");
    std::free(memory);
  };
  penstock_provider* const host = NewProvider(script, ops);
  BufferRef buffer;
  {
    Loop loop;
    AdaptedProvider provider(loop, host->host);
    buffer = provider.buffers().Allocate(4096);
  }
  EXPECT_THAT(script.memory, ElementsAre("allocate"));
  EXPECT_EQ(penstock_provider_free(host), -EBUSY) << "a buffer is in use";
  buffer.Reset();
  EXPECT_THAT(script.memory, ElementsAre("allocate", "release"));
  EXPECT_EQ(penstock_provider_free(host), 0);
}

TEST(HostProviderMemoryTest, WhatTheHostTellsCallsNoFunctionOfTheHost) {
  Script script;
  static thread_local bool tells = false;
  penstock_provider_ops ops = Functions();
  ops.allocate = [](void*, size_t size, size_t alignment) { return std::aligned_alloc(alignment, size); };
  ops.release = [](void*, void* memory, size_t) {
    EXPECT_FALSE(tells) << "the host may hold its locks";
    std::free(memory);
  };
  penstock_provider* const host = NewProvider(script, ops);
  std::atomic<uint64_t> connection = 0;
  {
    // More threads than processors: some of them stand still inside of the function while the provider ends.
    std::vector<std::jthread> tellers;
    for (int i = 0; i < 8; ++i) {
      tellers.emplace_back([&](const std::stop_token& stop) {
        while (!stop.stop_requested()) {
          tells = true;
          const int told = penstock_provider_completed(host, connection, 4);
          tells = false;
          if (told < 0) std::this_thread::yield();
        }
      });
    }
    for (int i = 0; i < 50; ++i) {
      Loop loop;
      AdaptedProvider provider(loop, host->host);
      provider.buffers().set_kept_octets(1 << 20);
      provider.buffers().Allocate(4096).Reset();
      const auto connect = [](AdaptedProvider& by) -> Task<void> {
        rdma::Address to(asio::ip::address_v4::loopback(), 4711);
        EXPECT_FALSE(co_await by.Connect(to, {}));
      };
      Spawn(connect(provider));
      connection = script.last().connection;
      std::this_thread::sleep_for(std::chrono::microseconds(500));
    }
  }
  EXPECT_EQ(penstock_provider_free(host), 0) << penstock_error_text();
}

TEST(HostProviderSettingsTest, NewRejectsWrongSettings) {
  Script script;
  const penstock_provider_ops all = Functions();
  penstock_provider* made = nullptr;
  penstock_provider_ops ops = all;
  ops.invalidate = nullptr;
  EXPECT_EQ(penstock_provider_new(&ops, &script, nullptr, &made), -EINVAL);
  ops = all;
  ops.allocate = [](void*, size_t, size_t) -> void* { return nullptr; };
  EXPECT_EQ(penstock_provider_new(&ops, &script, nullptr, &made), -EINVAL);
  ops = all;
  ops.size = 0;
  EXPECT_EQ(penstock_provider_new(&ops, &script, nullptr, &made), -EINVAL);
  for (const auto change : {+[](penstock_provider_options& options) { options.flags = 2; },
                            +[](penstock_provider_options& options) { options.max_message = 4095; },
                            +[](penstock_provider_options& options) { options.max_transfer = 1; },
                            +[](penstock_provider_options& options) { options.max_private_data = 55; },
                            +[](penstock_provider_options& options) { options.max_private_data = 1025; }}) {
    penstock_provider_options options = PENSTOCK_PROVIDER_OPTIONS_INIT;
    change(options);
    EXPECT_EQ(penstock_provider_new(&all, &script, &options, &made), -EINVAL) << penstock_error_text();
  }
  EXPECT_EQ(made, nullptr);
  EXPECT_EQ(penstock_provider_free(nullptr), 0);
}

TEST(HostProviderSettingsTest, RuntimesAndServersHoldTheProvider) {
  Script script;
  penstock_provider* const host = NewProvider(script);
  penstock_runtime_options options = PENSTOCK_RUNTIME_OPTIONS_INIT;
  options.provider = host;
  options.rdma = "iwarp";
  penstock_runtime* runtime = nullptr;
  EXPECT_EQ(penstock_runtime_new(&options, &runtime), -EINVAL) << "rdma and provider contradict each other";
  options.rdma = nullptr;
  ASSERT_EQ(penstock_runtime_new(&options, &runtime), 0) << penstock_error_text();
  EXPECT_EQ(penstock_provider_free(host), -EBUSY);

  penstock_mount* mount = nullptr;
  EXPECT_EQ(penstock_mount_open(runtime, "nfs://127.0.0.1/?proto=stepup&vers=4.1", nullptr, &mount, nullptr), -EINVAL);
  EXPECT_EQ(penstock_runtime_free(runtime), 0);

  penstock_server_options settings = PENSTOCK_SERVER_OPTIONS_INIT;
  settings.state_directory = "/nowhere";
  settings.provider = host;
  settings.rdma_device = "mlx5_0";
  penstock_server* server = nullptr;
  EXPECT_EQ(penstock_server_new(&settings, &server), -EINVAL);
  settings.rdma_device = nullptr;
  ASSERT_EQ(penstock_server_new(&settings, &server), 0) << penstock_error_text();
  EXPECT_EQ(penstock_provider_free(host), -EBUSY);
  penstock_server_free(server);
  EXPECT_EQ(penstock_provider_free(host), 0) << penstock_error_text();
}

}  // namespace
}  // namespace penstock::library
