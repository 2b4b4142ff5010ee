// The fixture for tests of TLS on TCP connections.
#pragma once

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/ssl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/cancellation.h"
#include "base/failing_disk.h"
#include "base/signal.h"
#include "rpc/starttls.h"
#include "rpc/tcp/secure_client.h"
#include "rpc/tcp/tcp_test.h"
#include "rpc/tls/test_certificates.h"

namespace penstock::rpc::tcp {

using testing::Echo;
using ::testing::HasSubstr;
using Kind = Error::Kind;
constexpr uint32_t kTls = 7;

class TlsTest : public TcpTest {
 protected:
  TlsTest() : server_files_(certificates_.Issue("server", {.names = "DNS:server.example,IP:127.0.0.1"})) {
    auto loaded = tls::Credentials::Load(server_files_);
    EXPECT_TRUE(loaded);
    credentials_ = *loaded;
    security_.terms.host = "server.example";
    security_.program = testing::kTestProgram;
    security_.version = 3;
    UseClientFiles(certificates_.Issue("client", {.names = "DNS:client.example"}));
  }

  void UseClientFiles(const tls::Files& files) {
    auto made = tls::Context::ForClient(files);
    ASSERT_TRUE(made) << made.error().message;
    security_.context = *made;
  }
  void StartTlsServer(ServerOptions options = {}) {
    options.tls = credentials_;
    StartServer(std::move(options));
  }

  SetupResult<std::unique_ptr<Channel>> TryConnectSecurely(const ChannelOptions& options = {}) {
    std::optional<SetupResult<std::unique_ptr<Channel>>> result;
    Spawn([](Loop& on, SocketAddress to, ChannelOptions with, ClientSecurity security, auto& out) -> Task<void> {
      out.emplace(co_await Channel::ConnectSecurely(on, to, with, security));
    }(loop, address, options, security_, result));
    TurnUntil([&] { return result.has_value(); });
    return std::move(*result);
  }
  void ConnectSecurely(const ChannelOptions& options = {}) {
    auto connected = TryConnectSecurely(options);
    ASSERT_TRUE(connected) << connected.error().message;
    channel = *std::move(connected);
    client.emplace(*channel, loop.buffers(), Xid(1000));
  }
  std::string ErrorOfConnect() {
    auto connected = TryConnectSecurely();
    Turn();
    return connected ? "no error" : connected.error().message;
  }

  // A record with a call of procedure `procedure`, AUTH_TLS and the given words behind the flavor.
  static std::string TlsCall(uint32_t xid, uint32_t procedure = 0, uint32_t version = 3) {
    return Words({0x8000'0028, xid, 0, 2, testing::kTestProgram, version, procedure, kTls, 0, 0, 0});
  }
  static std::string StartTlsReply(uint32_t xid, uint32_t status = 0) {
    return Words({0x8000'0020, xid, 1, 0, 0, 8}) + "STARTTLS" + Words({status});
  }
  static std::string Denial(uint32_t xid, AuthStatus why) {
    return Words({0x8000'0014, xid, 1, 1, 1, static_cast<uint32_t>(why)});
  }

  tls::testing::TestCertificates certificates_;
  tls::Files server_files_;
  std::shared_ptr<tls::Credentials> credentials_;
  ClientSecurity security_;
};

}  // namespace penstock::rpc::tcp
