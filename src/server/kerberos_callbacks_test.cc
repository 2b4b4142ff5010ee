// Calls to clients of version 4.0 that use Kerberos.
#include <fmt/core.h>

#include <array>
#include <asio/ip/udp.hpp>
#include <fstream>
#include <future>

#include "base/test_loop.h"
#include "rpc/client.h"
#include "rpc/dispatch.h"
#include "rpc/gss/acceptor.h"
#include "rpc/gss/kerberos.h"
#include "rpc/gss/kerberos_client.h"
#include "rpc/tcp/server.h"
#include "rpc/test_program.h"
#include "server/callback_connections.h"
#include "server/kerberos_test.h"

namespace penstock::server {
namespace {

constexpr const char* kServer = "nfs/localhost@PENSTOCK.TEST";
constexpr const char* kClient = "nfs/client1@PENSTOCK.TEST";

// A client that takes calls under Kerberos with the keys of nfs/client1. The test program stands for its callbacks.
class KerberosCallbacksTest : public testing::Test {
 protected:
  KerberosCallbacksTest() {
    auto opened = rpc::gss::Kerberos::Open(Environment("TEST_KEYTAB_NFS_CLIENT1"));
    EXPECT_TRUE(opened) << opened.error().message;
    keys_ = *std::move(opened);
    acceptor_.emplace(rpc::gss::Acceptor::Parts{
        .mechanism = *keys_, .clock = loop_, .random = [](Bytes octets) { std::ranges::fill(octets, std::byte{7}); }});
    dispatcher_.Add(program_);
    dispatcher_.Offer(*acceptor_);
    auto listener = rpc::tcp::Listener::Open(SocketAddress(asio::ip::make_address("127.0.0.1"), 0));
    EXPECT_TRUE(listener);
    endpoint_ = listener->local();
    EXPECT_TRUE(client_.Start(*listener));
  }

  ~KerberosCallbacksTest() override {
    bool stopped = false;
    Spawn([](rpc::tcp::Server& server, bool& done) -> Task<> {
      co_await server.Stop(std::chrono::seconds(1));
      done = true;
    }(client_, stopped));
    EXPECT_TRUE(TurnUntil(loop_, [&] { return stopped; }));
  }

  // Asks the client who calls it. Returns nothing if there is no connection.
  std::optional<penstock::Result<uint32_t, rpc::Error>> Ask(const nfs::v4::CallbackSecurity& security,
                                                            std::optional<std::string> keytab) {
    CallbackConnections connections(
        {.loop = loop_, .pool = pool_, .call_limit = kTestPatience, .keytab = std::move(keytab)});
    std::optional<penstock::Result<uint32_t, rpc::Error>> answer;
    bool ended = false;
    Spawn([](KerberosCallbacksTest& test, CallbackConnections& from, nfs::v4::CallbackSecurity how, auto& out,
             bool& done) -> Task<> {
      const nfs::v4::CallbackAddress to{.program = 1, .endpoint = test.endpoint_, .identifier = 0, .security = how};
      if (const auto channel = co_await from.To(to)) {
        rpc::Client caller(*channel, test.loop_.buffers(), rpc::Xid(1), rpc::ClientCredential(how.service));
        const auto reply = co_await caller.Call<rpc::testing::WhoAmI>({}, {.open = 100, .results = {}});
        if (reply) {
          out.emplace(reply->results);
        } else {
          out.emplace(std::unexpected(reply.error()));
        }
      }
      done = true;
    }(*this, connections, security, answer, ended));
    EXPECT_TRUE(TurnUntil(loop_, [&] { return ended; }));
    return answer;
  }

  Loop loop_;
  Workers pool_{1};
  std::unique_ptr<rpc::gss::Kerberos> keys_;
  std::optional<rpc::gss::Acceptor> acceptor_;
  rpc::testing::TestProgram program_;
  rpc::Dispatcher dispatcher_;
  SocketAddress endpoint_;
  rpc::tcp::Server client_{loop_, dispatcher_};
};

TEST_F(KerberosCallbacksTest, TheServerCallsByTheNameThatTheClientKnows) {
  for (const GssService service : {GssService::kNone, GssService::kIntegrity, GssService::kPrivacy}) {
    const auto answer = Ask({.service = service, .client = kClient, .server = kServer}, Environment("KRB5_KTNAME"));
    ASSERT_TRUE(answer && *answer);
    EXPECT_EQ(program_.last.initiator->display, kServer);
    EXPECT_EQ(program_.last.initiator->acceptor, kClient);
    EXPECT_EQ(program_.last.service, service);
  }
}

TEST_F(KerberosCallbacksTest, TheServerDoesNotCallAClientThatIsAnotherPrincipal) {
  const auto answer =
      Ask({.service = GssService::kIntegrity, .client = "host/client2@PENSTOCK.TEST", .server = kServer},
          Environment("KRB5_KTNAME"));
  ASSERT_TRUE(answer);
  EXPECT_FALSE(*answer) << "the client has no key of that principal";
  EXPECT_EQ(program_.calls, 0u);
}

TEST_F(KerberosCallbacksTest, WithoutAKeytabTheServerDoesNotCall) {
  EXPECT_FALSE(Ask({.service = GssService::kIntegrity, .client = kClient, .server = kServer}, std::nullopt));
  EXPECT_EQ(program_.calls, 0u);
}

// A host that takes the messages of KDCs and never answers.
class SilentKdc {
 public:
  SilentKdc() {
    datagrams_.bind({asio::ip::make_address("127.0.0.1"), 0});
    const std::string address = fmt::format("127.0.0.1:{}", datagrams_.local_endpoint().port());
    const auto path = directory_.path() / "krb5.conf";
    std::ofstream(path) << "[libdefaults]\n default_realm = PENSTOCK.TEST\n udp_preference_limit = 65000\n[realms]\n"
                        << " PENSTOCK.TEST = {\n  kdc = " << address << "\n }\n";
    ::setenv("KRB5_CONFIG", path.c_str(), 1);
  }
  ~SilentKdc() { ::setenv("KRB5_CONFIG", before_.c_str(), 1); }

  // Waits for the first message.
  bool IsAsked() {
    std::array<char, 2000> message;
    asio::error_code error;
    return datagrams_.receive(asio::buffer(message), 0, error) > 0;
  }

 private:
  const std::string before_ = Environment("KRB5_CONFIG");
  TemporaryDirectory directory_;
  asio::io_context context_;
  asio::ip::udp::socket datagrams_{context_, asio::ip::udp::v4()};
};

TEST_F(KerberosCallbacksTest, StopEndsACallThatWaitsForAKdc) {
  SilentKdc kdc;
  auto loop = std::make_unique<Loop>();
  auto connections = std::make_unique<CallbackConnections>(CallbackConnections::Parts{
      .loop = *loop, .pool = pool_, .call_limit = kTestPatience, .keytab = Environment("KRB5_KTNAME")});
  std::optional<rpc::CallError> error;
  Spawn([](CallbackConnections& from, Loop& on, SocketAddress to, std::optional<rpc::CallError>& out) -> Task<> {
    const nfs::v4::CallbackSecurity security{.service = GssService::kIntegrity, .client = kClient, .server = kServer};
    const nfs::v4::CallbackAddress at{.program = 1, .endpoint = to, .identifier = 0, .security = security};
    const auto channel = co_await from.To(at);
    rpc::Client caller(*channel, on.buffers(), rpc::Xid(1), rpc::ClientCredential(security.service));
    const auto reply = co_await caller.Call<rpc::testing::WhoAmI>({}, {.open = 100, .results = {}});
    out = reply ? rpc::CallError{} : reply.error().transport;
  }(*connections, *loop, endpoint_, error));
  std::future<bool> asked = std::async(std::launch::async, [&] { return kdc.IsAsked(); });
  ASSERT_TRUE(TurnUntil(*loop, [&] { return asked.wait_for(std::chrono::seconds(0)) == std::future_status::ready; }));
  EXPECT_FALSE(error);
  connections->Stop();
  EXPECT_EQ(error, rpc::CallError::kNoContext);
  connections.reset();
  TurnFor(*loop, {});
  loop.reset();  // while a thread is still in the library
}

TEST(DefaultKeytab, IsThePathOfTheEnvironment) { EXPECT_EQ(rpc::gss::DefaultKeytab(), Environment("KRB5_KTNAME")); }

}  // namespace
}  // namespace penstock::server
