// Tests of the client of TLS on TCP connections: its probe, its handshake, and how it tells what fails.
#include "rpc/tcp/tls_test.h"

namespace penstock::rpc::tcp {
namespace {

// Answers calls in plain text, and leaves the calls within TLS to the test.
class Mute : public CallHandler {
 public:
  explicit Mute(CallHandler& to) : to_(to) {}
  Task<Message> HandleCall(Message call, const Peer& peer) override {
    if (peer.protection == Protection::kNone) co_return co_await to_.HandleCall(std::move(call), peer);
    ++waiting;
    while (!released) co_await release;
    co_return Message();
  }
  size_t waiting = 0;
  bool released = false;  // calls end without a reply, so that the server closes their connections
  Signal release;

 private:
  CallHandler& to_;
};

class UnconfirmedTest : public TlsTest {
 protected:
  UnconfirmedTest() {
    server_files_.authorities = certificates_.authority();
    security_.terms.mutual = true;
    server = std::make_unique<Server>(loop, mute_, ServerOptions{.tls = credentials_});
    EXPECT_TRUE(server->Start(*listener));
  }
  ~UnconfirmedTest() override {
    Release();
    StopServer(1s);
  }
  void Release() {
    mute_.released = true;
    mute_.release.Notify();
  }
  std::string Connect(const ChannelOptions& options, const std::function<void()>& when_waiting) {
    std::optional<SetupResult<std::unique_ptr<Channel>>> result;
    Spawn([](Loop& on, SocketAddress to, ChannelOptions with, ClientSecurity security, auto& out) -> Task<void> {
      out.emplace(co_await Channel::ConnectSecurely(on, to, with, security));
    }(loop, address, options, security_, result));
    TurnUntil([&] { return mute_.waiting > 0 || result.has_value(); });
    EXPECT_FALSE(result);
    when_waiting();
    TurnUntil([&] { return result.has_value(); });
    Turn();
    return *result ? "no error" : result->error().message;
  }
  Mute mute_{dispatcher};
};

TEST_F(UnconfirmedTest, TellsATimeoutFromARefusedCertificate) {
  const TimePoint start = loop.Now();
  EXPECT_EQ(Connect({.connect_limit = 2s}, [] {}), "the server did not answer the first call within TLS in time");
  EXPECT_GE(loop.Now() - start, 2s);
}

TEST_F(UnconfirmedTest, TellsALostConnectionFromARefusedCertificate) {
  EXPECT_THAT(Connect({}, [this] { Release(); }),
              HasSubstr("lost behind the TLS handshake, and the server gave no reason"));
}

TEST_F(UnconfirmedTest, CanBeCancelled) {
  Cancellation cancellation;
  EXPECT_EQ(Connect({.cancellation = &cancellation}, [&] { cancellation.Cancel(); }), "cancelled");
}

TEST_F(TlsTest, TellsThatTheServerHasTlsBeforeTheHandshake) {
  StartTlsServer();
  size_t told = 0;
  security_.on_starttls = [&told] { ++told; };
  security_.terms.host = "other.example";
  EXPECT_THAT(ErrorOfConnect(), HasSubstr("TLS handshake"));
  EXPECT_EQ(told, 1u);
}

TEST_F(TlsTest, NamesTheStepThatFails) {
  StartTlsServer();
  security_.terms.host = "other.example";
  EXPECT_THAT(ErrorOfConnect(), HasSubstr("TLS handshake: the server's certificate does not name other.example"));
  security_.terms.host = "server.example";
  tls::testing::TestCertificates others;
  UseClientFiles(others.Issue("stranger", {.names = "DNS:stranger.example"}));
  EXPECT_THAT(ErrorOfConnect(), HasSubstr("TLS handshake: the server's certificate is not trusted"));
  // The server does not know the authority of the client.
  tls::Files stranger = others.Issue("stranger", {.names = "DNS:stranger.example"});
  stranger.authorities = certificates_.authority();
  UseClientFiles(stranger);
  security_.terms.mutual = true;
  EXPECT_THAT(ErrorOfConnect(), HasSubstr("the server did not accept this client's certificate"));
}

TEST_F(TlsTest, AServerWithoutTlsIsAnErrorUnlessTheClientIsOpportunistic) {
  StartServer();
  EXPECT_THAT(ErrorOfConnect(), HasSubstr("the server has no TLS at this port"));
  security_.required = false;
  ConnectSecurely();
  EXPECT_EQ(channel->tls(), nullptr);
  EXPECT_TRUE(Call<testing::Null>());
}

TEST_F(TlsTest, AnOpportunisticClientDoesNotTolerateAFailedHandshake) {
  StartTlsServer();
  security_.required = false;
  security_.terms.host = "other.example";
  EXPECT_THAT(ErrorOfConnect(), HasSubstr("TLS handshake"));
}

// A server that the test plays: it answers the probe with `answer`, in which the XID is missing, and then sends `more`.
class PlayedServerTest : public TlsTest {
 protected:
  std::string ErrorWith(const std::string& answer, const std::string& more = {}) {
    std::optional<SetupResult<std::unique_ptr<Channel>>> result;
    Spawn([](Loop& on, SocketAddress to, ClientSecurity security, auto& out) -> Task<void> {
      ChannelOptions options;
      options.connect_limit = 2s;
      out.emplace(co_await Channel::ConnectSecurely(on, to, options, security));
    }(loop, address, security_, result));
    FileDescriptor fd(-1);
    TurnUntil([&] {
      fd = FileDescriptor(::accept4(listener->fd(), nullptr, nullptr, SOCK_NONBLOCK));
      return static_cast<bool>(fd);
    });
    sent_ = ReadFrom(fd, 44);
    const std::string xid = sent_.substr(4, 4);
    if (!answer.empty()) Write(fd, answer.substr(0, 4) + xid + answer.substr(4) + more);
    if (answer.empty()) fd = FileDescriptor(-1);
    TurnUntil([&] { return result.has_value(); });
    if (fd) rest_ = ReadFrom(fd, 1 << 16);
    const std::string why = *result ? "" : result->error().message;
    result.reset();
    Turn();
    return why;
  }
  std::string sent_;  // the probe
  std::string rest_;  // the octets after it
};

TEST_F(PlayedServerTest, SendsAProbeOfTheSpecifiedForm) {
  ErrorWith("");
  ASSERT_EQ(sent_.size(), 44u);
  EXPECT_EQ(sent_.substr(0, 4), Words({0x8000'0028}));
  EXPECT_EQ(sent_.substr(8), TlsCall(0).substr(8));
}

TEST_F(PlayedServerTest, SendsNothingAfterAnAnswerWithoutTls) {
  const std::string answers[] = {
      Words({0x8000'0014, 1, 1, 1, 1}),     // denied
      Words({0x8000'0018, 1, 0, 0, 0, 0}),  // an empty verifier
      Words({0x8000'0020, 1, 0, 0, 8}) + "STARTTLX" + Words({0}),
      Words({0x8000'0020, 1, 0, 1, 8}) + "STARTTLS" + Words({0}),  // not AUTH_NONE
  };
  for (const std::string& answer : answers) {
    EXPECT_THAT(ErrorWith(answer), HasSubstr("the server has no TLS at this port"));
    EXPECT_EQ(rest_, "");
  }
}

TEST_F(PlayedServerTest, DropsAConnectionWithPlainTextBehindTheAnswer) {
  const std::string answer = Words({0x8000'0020, 1, 0, 0, 8}) + "STARTTLS" + Words({0});
  EXPECT_THAT(ErrorWith(answer, "plain"), HasSubstr("plain text behind its answer"));
  EXPECT_EQ(rest_, "");
}

TEST_F(PlayedServerTest, AnOpportunisticClientDoesNotTakeGarbageForAnAnswer) {
  security_.required = false;
  EXPECT_THAT(ErrorWith(Words({0x8000'0018, 0, 0, 0, 0, 0})), HasSubstr("malformed"));
  EXPECT_THAT(ErrorWith(Words({0x8000'0400, 0})), HasSubstr("in time"));
  EXPECT_THAT(ErrorWith(Words({0x8fff'0000, 0})), HasSubstr("no RPC reply"));
  EXPECT_THAT(ErrorWith(""), HasSubstr("closed the connection instead"));
}

TEST_F(PlayedServerTest, EndsAHandshakeThatStalls) {
  const std::string answer = Words({0x8000'0020, 1, 0, 0, 8}) + "STARTTLS" + Words({0});
  EXPECT_THAT(ErrorWith(answer), HasSubstr("did not complete the TLS handshake in time"));
  ASSERT_FALSE(rest_.empty());
  EXPECT_EQ(rest_[0], 22);  // a ClientHello, and no call
}

}  // namespace
}  // namespace penstock::rpc::tcp
