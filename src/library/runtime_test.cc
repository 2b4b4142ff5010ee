// Runtimes of the C API, and servers that they cannot reach.
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <cerrno>
#include <string>
#include <thread>

#include "library/library_test_support.h"
#include "penstock/penstock.h"

namespace penstock::library {
namespace {

// ---- runtimes ----

TEST(Runtime, RefusesWrongOptions) {
  penstock_runtime* runtime = nullptr;
  for (const auto change : {+[](penstock_runtime_options& options) { options.threads = 257; },
                            +[](penstock_runtime_options& options) { options.blocking_threads = 3; },
                            +[](penstock_runtime_options& options) { options.rdma = "token-ring"; }}) {
    penstock_runtime_options options = PENSTOCK_RUNTIME_OPTIONS_INIT;
    change(options);
    EXPECT_EQ(penstock_runtime_new(&options, &runtime), -EINVAL);
  }
  EXPECT_EQ(runtime, nullptr);
}

// ---- servers that cannot be reached ----

class UnreachableTest : public testing::Test {
 protected:
  UnreachableTest() { EXPECT_EQ(penstock_runtime_new(nullptr, &runtime_), 0); }
  ~UnreachableTest() override { EXPECT_EQ(penstock_runtime_free(runtime_), 0); }

  static std::string UrlAt(uint16_t port, const char* options) {
    return fmt::format("nfs://127.0.0.1:{}/?timeout=1&mountport={}&{}", port, port, options);
  }
  // Expects that a mount cannot be opened.
  void ExpectError(const std::string& url, int number) {
    penstock_mount* mount = nullptr;
    EXPECT_EQ(penstock_mount_open(runtime_, url.c_str(), nullptr, &mount, nullptr), -number)
        << url << ": " << penstock_error_text();
    EXPECT_EQ(mount, nullptr);
  }

  penstock_runtime* runtime_ = nullptr;
};

// A listener on loopback that is no NFS server.
class OtherListener {
 public:
  uint16_t port() const { return acceptor_.local_endpoint().port(); }

 protected:
  asio::io_context context_;
  asio::ip::tcp::acceptor acceptor_{context_, {asio::ip::address_v4::loopback(), 0}};
};

// Closes each connection at once, on a thread of its own.
class ClosingListener : public OtherListener {
 public:
  ~ClosingListener() {
    ::shutdown(acceptor_.native_handle(), SHUT_RDWR);
    thread_.join();
  }

 private:
  std::thread thread_{[this] {
    asio::error_code error;
    while (!error) acceptor_.accept(error);
  }};
};

constexpr std::array kEachVersion{"vers=3", "vers=4.0", "vers=4.1"};

TEST_F(UnreachableTest, APortWithoutAListenerRefuses) {
  const server::KeptPort port;
  for (const char* options : {"vers=3", "vers=4.0", "proto=tcp", "vers=3&proto=rdma", "proto=rdma", "xprtsec=tls"}) {
    ExpectError(UrlAt(port.get(), options), ECONNREFUSED);
  }
}

TEST_F(UnreachableTest, AnUnknownHostNameIsUnreachable) {
  ExpectError("nfs://nobody.invalid/?timeout=1", EHOSTUNREACH);
  ExpectError("nfs://nobody.invalid/?timeout=1&proto=rdma", EHOSTUNREACH);
}

TEST_F(UnreachableTest, AListenerThatClosesConnectionsResetsThem) {
  const ClosingListener listener;
  for (const char* options : kEachVersion) ExpectError(UrlAt(listener.port(), options), ECONNRESET);
  ExpectError(UrlAt(listener.port(), "xprtsec=tls"), ECONNRESET);
  ExpectError(UrlAt(listener.port(), "proto=rdma"), EPROTO);
}

TEST_F(UnreachableTest, AListenerThatIsSilentTimesOut) {
  const OtherListener listener;
  for (const char* options : kEachVersion) ExpectError(UrlAt(listener.port(), options), ETIMEDOUT);
  for (const char* options : {"proto=rdma", "xprtsec=tls"}) ExpectError(UrlAt(listener.port(), options), ETIMEDOUT);
}

TEST_F(UnreachableTest, DeniesAServerWithoutTls) {
  TestServer server;
  ExpectError(server.Url("xprtsec=tls"), EACCES);
}

TEST_F(UnreachableTest, OperationsOfAMountTellThatTheServerIsGone) {
  for (const char* options : {"vers=3", "vers=4.0", "vers=4.1", "vers=4.2&proto=rdma"}) {
    TestServer server;
    penstock_mount* mount = nullptr;
    const std::string url = server.Url(options) + "&timeout=1";
    ASSERT_EQ(penstock_mount_open(runtime_, url.c_str(), nullptr, &mount, nullptr), 0) << penstock_error_text();
    server.Stop();
    EXPECT_EQ(penstock_ping(mount, nullptr), -ECONNREFUSED) << options << ": " << penstock_error_text();
    penstock_attributes attributes = PENSTOCK_ATTRIBUTES_INIT;
    EXPECT_EQ(penstock_stat(mount, "/", 0, &attributes, nullptr), -ECONNREFUSED)
        << options << ": " << penstock_error_text();
    penstock_mount_close(mount, nullptr);
  }
}

// ---- hosts with a loop of their own ----

// A host with one thread polls the descriptor beside its own.
TEST(Runtime, AHostPollsTheDescriptor) {
  TestServer server;
  penstock_runtime_options options = PENSTOCK_RUNTIME_OPTIONS_INIT;
  options.threads = 0;
  penstock_runtime* runtime = nullptr;
  ASSERT_EQ(penstock_runtime_new(&options, &runtime), 0);
  penstock_mount* mount = nullptr;
  Done opened;
  const penstock_call call = opened.Call();
  ASSERT_EQ(penstock_mount_open(runtime, server.Url("vers=4.2").c_str(), nullptr, &mount, &call), 0);
  const auto poll_until = [&](const Done& done) {
    while (!done.is_done()) {
      pollfd one{.fd = penstock_runtime_fd(runtime), .events = POLLIN, .revents = 0};
      ASSERT_EQ(::poll(&one, 1, 30'000), 1);
      EXPECT_GE(penstock_runtime_dispatch(runtime, 0), 0);
    }
  };
  poll_until(opened);
  ASSERT_NE(mount, nullptr) << opened.Wait(runtime) << opened.error();
  Done pinged;
  const penstock_call ping = pinged.Call();
  EXPECT_EQ(penstock_ping(mount, &ping), 0);
  EXPECT_FALSE(pinged.is_done());
  poll_until(pinged);
  Done closed;
  const penstock_call close = closed.Call();
  EXPECT_EQ(penstock_mount_close(mount, &close), 0);
  poll_until(closed);
  EXPECT_EQ(closed.Wait(runtime), 0) << closed.error();
  EXPECT_EQ(penstock_runtime_free(runtime), 0);
}

}  // namespace
}  // namespace penstock::library
