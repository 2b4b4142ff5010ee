// The fixture for tests of a provider whose host is a script: each test decides what the host tells, the mistakes
// included.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/loop.h"
#include "base/test_log.h"
#include "base/test_loop.h"
#include "library/provider/adapted_provider.h"
#include "library/provider/host_provider.h"
#include "library/provider_object.h"
#include "penstock/provider.h"

namespace penstock::library {

using rdma::ConnectError;
using rdma::ConnectResult;
using rdma::DisconnectReason;
using rdma::Operation;
using rdma::Status;

// What the library has asked of an endpoint of the host.
struct ScriptedEndpoint {
  uint64_t connection = 0;
  std::vector<penstock_rdma_receive> receives;
  std::vector<uint64_t> requests;  // Sends, Writes, Reads and invalidations
  std::vector<uint32_t> exposed;
  penstock_rdma_depths depths{};
  bool accepted = false, rejected = false, disconnected = false, closed = false;
};

// The host. It keeps its endpoints after their end, so that a test can look at them.
struct Script {
  std::vector<std::unique_ptr<ScriptedEndpoint>> endpoints;
  uint64_t listener = 0;
  bool listens = false;
  uint32_t next_stag = 1;
  std::vector<std::string> memory;  // "allocate", "release"
  // What the functions do.
  int connect_result = 0, listen_result = 0, send_result = 0;
  bool gives_no_endpoint = false;
  std::string actual_address = "127.0.0.1:4711";
  std::function<void(ScriptedEndpoint&)> on_connect{};
  std::function<void()> on_send{};

  ScriptedEndpoint& last() { return *endpoints.back(); }
};

inline Script& ScriptOf(void* self) { return *static_cast<Script*>(self); }
inline ScriptedEndpoint& EndpointOf(void* endpoint) { return *static_cast<ScriptedEndpoint*>(endpoint); }

// The functions of an endpoint have no `self`.
inline Script* script_of_test = nullptr;

inline void Take(ScriptedEndpoint& endpoint, const penstock_rdma_terms& terms) {
  endpoint.receives.assign(terms.receives, terms.receives + terms.receive_count);
  endpoint.depths = terms.depths;
}

inline penstock_provider_ops Functions() {
  penstock_provider_ops ops = PENSTOCK_PROVIDER_OPS_INIT;
  ops.connect = [](void* self, uint64_t connection, const char*, const penstock_rdma_terms* terms, void** endpoint) {
    Script& script = ScriptOf(self);
    if (script.connect_result != 0) return script.connect_result;
    auto made = std::make_unique<ScriptedEndpoint>();
    made->connection = connection;
    Take(*made, *terms);
    if (!script.gives_no_endpoint) *endpoint = made.get();
    script.endpoints.push_back(std::move(made));
    if (script.on_connect) script.on_connect(script.last());
    return 0;
  };
  ops.listen = [](void* self, uint64_t listener, const char*, char* actual, size_t size, void** pointer) {
    Script& script = ScriptOf(self);
    if (script.listen_result != 0) return script.listen_result;
    script.listener = listener;
    script.listens = true;
    std::strncpy(actual, script.actual_address.c_str(), size);
    *pointer = &script;
    return 0;
  };
  ops.stop_listening = [](void* pointer) { ScriptOf(pointer).listens = false; };
  ops.accept = [](void* endpoint, const penstock_rdma_terms* terms) {
    Take(EndpointOf(endpoint), *terms);
    EndpointOf(endpoint).accepted = true;
    return 0;
  };
  ops.reject = [](void* endpoint, const void*, size_t) { EndpointOf(endpoint).rejected = true; };
  ops.post_receive = [](void* endpoint, const penstock_rdma_receive* receive) {
    EndpointOf(endpoint).receives.push_back(*receive);
    return 0;
  };
  ops.send = [](void* endpoint, uint64_t request, const penstock_rdma_piece*, size_t, const uint32_t*, int) {
    EndpointOf(endpoint).requests.push_back(request);
    if (script_of_test->on_send) script_of_test->on_send();
    return script_of_test->send_result;
  };
  ops.write = [](void* endpoint, uint64_t request, const penstock_rdma_piece*, size_t, const penstock_rdma_segment*) {
    EndpointOf(endpoint).requests.push_back(request);
    return 0;
  };
  ops.read = [](void* endpoint, uint64_t request, void*, const penstock_rdma_segment*) {
    EndpointOf(endpoint).requests.push_back(request);
    return 0;
  };
  ops.expose = [](void* endpoint, void*, size_t, penstock_rdma_access, uint32_t* stag, uint64_t* offset) {
    *stag = script_of_test->next_stag++;
    *offset = 0;
    EndpointOf(endpoint).exposed.push_back(*stag);
    return 0;
  };
  ops.invalidate = [](void* endpoint, uint64_t request, uint32_t) {
    EndpointOf(endpoint).requests.push_back(request);
    return 0;
  };
  ops.disconnect = [](void* endpoint) {
    EndpointOf(endpoint).disconnected = true;
    return 0;
  };
  ops.close = [](void* endpoint) {
    EXPECT_FALSE(EndpointOf(endpoint).closed) << "an endpoint is closed twice";
    EndpointOf(endpoint).closed = true;
  };
  return ops;
}

inline penstock_provider* NewProvider(Script& script, const penstock_provider_ops& ops = Functions()) {
  script_of_test = &script;
  penstock_provider_options options = PENSTOCK_PROVIDER_OPTIONS_INIT;
  options.flags = PENSTOCK_PROVIDER_REMOTE_INVALIDATION;
  penstock_provider* made = nullptr;
  EXPECT_EQ(penstock_provider_new(&ops, &script, &options, &made), 0) << penstock_error_text();
  return made;
}

class HostProviderTest : public testing::Test {
 protected:
  HostProviderTest() : work_(loop_->context().get_executor()) {}
  ~HostProviderTest() override {
    endpoint_.reset();
    provider_.reset();
    TurnFor(*loop_, std::chrono::milliseconds(1));
    work_.reset();
    loop_.reset();
    EXPECT_EQ(penstock_provider_free(host_), 0) << penstock_error_text();
    for (const auto& each : script_.endpoints) EXPECT_TRUE(each->closed || each->rejected || script_.gives_no_endpoint);
  }

  template <class Done>
  void RunUntil(const Done& done) {
    ASSERT_TRUE(TurnUntil(*loop_, done));
  }
  void Settle() { TurnFor(*loop_, std::chrono::milliseconds(2)); }

  // Begins to connect. The result comes in connected_.
  void BeginConnect(rdma::ConnectOptions options = {}) {
    connected_.reset();
    const auto connect = [](HostProviderTest& test, rdma::ConnectOptions with) -> Task<void> {
      rdma::Address to(asio::ip::address_v4::loopback(), 4711);
      ConnectResult result = co_await test.provider_->Connect(to, std::move(with));
      test.connected_.emplace(std::move(result));
    };
    Spawn(connect(*this, std::move(options)));
  }
  static penstock_rdma_peer Peer() {
    penstock_rdma_peer peer = PENSTOCK_RDMA_PEER_INIT;
    peer.local = "127.0.0.1:1000";
    peer.peer = "127.0.0.1:4711";
    return peer;
  }
  // Connects endpoint_ to the script, with two receives of 512 octets, whose contexts are 1 and 2.
  void Connect() {
    rdma::ConnectOptions options;
    options.ord = 2;
    for (const rdma::Context context : {1, 2}) {
      options.receives.push_back({context, 512});
    }
    BeginConnect(std::move(options));
    const penstock_rdma_peer peer = Peer();
    ASSERT_EQ(penstock_provider_connected(host_, script_.last().connection, &peer), 0);
    RunUntil([&] { return connected_.has_value(); });
    ASSERT_TRUE(*connected_) << connected_->error().detail;
    endpoint_ = **std::move(connected_);
    endpoint_->Start([this] {
      std::array<rdma::Completion, 16> batch;
      size_t count = 0;
      do {
        count = endpoint_->Poll(batch);
        for (size_t i = 0; i < count; ++i) completions_.push_back(std::move(batch[i]));
      } while (count == batch.size());
    });
  }
  void PostSend(rdma::Context context) { endpoint_->PostSend({.context = context, .gather = {}, .invalidate = {}}); }
  // Waits for the end of the connection, and checks that the log blames the host.
  void ExpectFault(const std::string& why) {
    RunUntil([&] { return !completions_.empty() && completions_.back().operation == Operation::kDisconnected; });
    EXPECT_EQ(completions_.back().reason, DisconnectReason::kFault);
    EXPECT_THAT(completions_.back().detail, testing::HasSubstr(why));
    EXPECT_THAT(log_.text(), testing::HasSubstr(why));
    EXPECT_TRUE(script_.last().closed);
    EXPECT_EQ(penstock_provider_completed(host_, script_.last().connection, 4), -ENOENT) << "the number is unknown";
  }
  std::vector<rdma::Context> Successes() const {
    std::vector<rdma::Context> contexts;
    for (const rdma::Completion& each : completions_) {
      const bool is_request = each.operation != Operation::kDisconnected;
      if (is_request && each.status == Status::kSuccess) contexts.push_back(each.context);
    }
    return contexts;
  }

  CapturedLog log_;
  Script script_;
  penstock_provider* host_ = NewProvider(script_);
  std::unique_ptr<Loop> loop_ = std::make_unique<Loop>();
  asio::executor_work_guard<asio::io_context::executor_type> work_;
  std::unique_ptr<AdaptedProvider> provider_ = std::make_unique<AdaptedProvider>(*loop_, host_->host);
  std::optional<ConnectResult> connected_;
  std::unique_ptr<rdma::Endpoint> endpoint_;
  std::vector<rdma::Completion> completions_;
};

}  // namespace penstock::library
