// Tests of TLS on RPC connections: the probe, the rules about plain text around it, and calls within TLS.
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
namespace {

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

  Result<std::unique_ptr<Channel>, std::string> TryConnectSecurely(const ChannelOptions& options = {}) {
    std::optional<Result<std::unique_ptr<Channel>, std::string>> result;
    Spawn([](Loop& on, SocketAddress to, ChannelOptions with, ClientSecurity security, auto& out) -> Task<void> {
      out.emplace(co_await Channel::ConnectSecurely(on, to, with, security));
    }(loop, address, options, security_, result));
    TurnUntil([&] { return result.has_value(); });
    return std::move(*result);
  }
  void ConnectSecurely(const ChannelOptions& options = {}) {
    auto connected = TryConnectSecurely(options);
    ASSERT_TRUE(connected) << connected.error();
    channel = *std::move(connected);
    client.emplace(*channel, loop.buffers(), Xid(1000));
  }
  std::string ErrorOfConnect() {
    auto connected = TryConnectSecurely();
    Turn();
    return connected ? "no error" : connected.error();
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

TEST_F(TlsTest, ConveysCallsAndReplies) {
  StartTlsServer();
  ConnectSecurely();
  ASSERT_TRUE(channel->tls());
  EXPECT_EQ(channel->tls()->version, "TLSv1.3");
  for (const size_t size : {1u, 16'380u, 65'536u, 300'000u, 1'900'000u}) {
    const std::string text = Pattern(size);
    const auto reply = Call<Echo>(text);
    ASSERT_TRUE(reply) << size;
    EXPECT_EQ(reply->results, text);
  }
}

TEST_F(TlsTest, SendsPayloadsFromMemoryAndFiles) {
  StartTlsServer();
  ConnectSecurely();
  ExpectPayloads();
}

// The reply's status of success has left before.
TEST_F(TlsTest, AFileThatCannotBeReadEndsTheConnection) {
  StartTlsServer();
  const std::string bytes = Pattern(1'000'003);
  char path[] = "/var/tmp/penstock-tls-test-XXXXXX";
  auto file = std::make_shared<FileDescriptor>(::mkstemp(path));
  ASSERT_EQ(::write(file->get(), bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
  program.data = Data(file, 0, bytes.size());
  FailingDisk disk;
  for (const uint64_t good : {0u, 300'000u}) {
    disk.Fail({.call = DiskCall::kRead, .path = path, .error = EIO, .from = good});
    ConnectSecurely();
    const auto failed = Call<testing::Read>(1'000'003);
    ASSERT_FALSE(failed) << good;
    EXPECT_EQ(failed.error().transport, CallError::kDisconnected) << good;
    disk.Mend();
    ConnectSecurely();
    EXPECT_EQ(Call<testing::Read>(1'000'003)->results.text(), bytes) << "the disk works again";
  }
  ::unlink(path);
}

TEST_F(TlsTest, ManyCallsShareTheConnection) {
  StartTlsServer({.max_calls = 16});
  ConnectSecurely();
  std::vector<CallOutcome<Echo>> outcomes(300);
  for (size_t i = 0; i < outcomes.size(); ++i) Start<Echo>(Pattern(i * 61), outcomes[i]);
  TurnUntil([&] { return std::ranges::all_of(outcomes, [](const auto& each) { return each.has_value(); }); });
  for (size_t i = 0; i < outcomes.size(); ++i) {
    ASSERT_TRUE(*outcomes[i]);
    EXPECT_EQ((*outcomes[i])->results, Pattern(i * 61));
  }
}

TEST_F(TlsTest, CallsTheClientWithinTheSession) {
  StartTlsServer();
  testing::TestProgram back_program;
  Dispatcher back;
  back.Add(back_program);
  ConnectSecurely({.back_channel = &back});
  ASSERT_TRUE(Call<testing::Null>());
  ASSERT_TRUE(program.last_peer.back_channel);
  Client reverse(*program.last_peer.back_channel);
  EXPECT_EQ(CallFrom<Echo>(reverse, "hello")->results, "hello");
}

TEST_F(TlsTest, TellsProgramsTheProtection) {
  StartTlsServer();
  ConnectSecurely();
  ASSERT_TRUE(Call<testing::Null>());
  EXPECT_EQ(program.last_peer.protection, Protection::kTls);
  EXPECT_EQ(program.last_peer.certificate, nullptr);

  security_.terms.mutual = true;
  ConnectSecurely();
  ASSERT_TRUE(Call<testing::Null>());
  EXPECT_EQ(program.last_peer.protection, Protection::kMutualTls);
  ASSERT_TRUE(program.last_peer.certificate);
  EXPECT_TRUE(program.last_peer.certificate->Names("client.example"));

  ConnectClient();
  ASSERT_TRUE(Call<testing::Null>());
  EXPECT_EQ(program.last_peer.protection, Protection::kNone);
}

// ---- the probe at the server ----

TEST_F(TlsTest, AnswersTheProbeOfAProgramThatItDoesNotHave) {
  StartTlsServer();
  const FileDescriptor fd = RawConnection();
  Write(fd, Words({0x8000'0028, 5, 0, 2, 99, 1, 0, kTls, 0, 0, 0}));
  EXPECT_EQ(ReadFrom(fd, 36), StartTlsReply(5, static_cast<uint32_t>(AcceptStatus::PROG_UNAVAIL)));
}

TEST_F(TlsTest, AServerWithoutACertificateDeniesTheProbe) {
  StartServer();
  const FileDescriptor fd = RawConnection();
  Write(fd, TlsCall(5));
  EXPECT_EQ(ReadFrom(fd, 24), Denial(5, AuthStatus::AUTH_BADCRED));
  Write(fd, NullCall(6).insert(0, Words({0x8000'0028})));
  EXPECT_EQ(ReadFrom(fd, 28), NullReply(6));
}

TEST_F(TlsTest, DeniesTheFlavorForOtherProceduresAndMalformedProbes) {
  StartTlsServer();
  const FileDescriptor fd = RawConnection();
  Write(fd, TlsCall(5, 1));
  EXPECT_EQ(ReadFrom(fd, 24), Denial(5, AuthStatus::AUTH_BADCRED));
  // A credential with a body, and a verifier with another flavor.
  Write(fd, Words({0x8000'002c, 6, 0, 2, testing::kTestProgram, 3, 0, kTls, 4, 0, 0, 0}));
  EXPECT_EQ(ReadFrom(fd, 24), Denial(6, AuthStatus::AUTH_BADCRED));
  Write(fd, Words({0x8000'0028, 7, 0, 2, testing::kTestProgram, 3, 0, kTls, 0, kTls, 0}));
  EXPECT_EQ(ReadFrom(fd, 24), Denial(7, AuthStatus::AUTH_BADCRED));
  Write(fd, NullCall(8).insert(0, Words({0x8000'0028})));
  EXPECT_EQ(ReadFrom(fd, 28), NullReply(8));
}

TEST_F(TlsTest, DeniesAProbeWithinTls) {
  StartTlsServer();
  ConnectSecurely();
  Message probe = MakeTlsProbe(loop.buffers(), Xid(77), testing::kTestProgram, 3);
  std::optional<Result<Message, CallError>> reply;
  Spawn([](Channel& over, Message call, auto& out) -> Task<void> {
    ReplyShape shape;
    out.emplace(co_await over.Call(std::move(call), std::move(shape)));
  }(*channel, std::move(probe), reply));
  TurnUntil([&] { return reply.has_value(); });
  ASSERT_TRUE(*reply);
  EXPECT_EQ(std::string(AsText((*reply)->stream.bytes())), Denial(77, AuthStatus::AUTH_BADCRED).substr(4));
  EXPECT_TRUE(Call<testing::Null>());
}

TEST_F(TlsTest, NeverExecutesPlainCallsBehindTheProbe) {
  StartTlsServer();
  const size_t before = program.calls;
  const FileDescriptor fd = RawConnection();
  Write(fd, TlsCall(5) + Words({0x8000'0028}) + NullCall(6));
  EXPECT_TRUE(ClosedByServer(fd));
  EXPECT_EQ(program.calls, before);
}

TEST_F(TlsTest, ClosesAConnectionWithPlainTextInPlaceOfTheHandshake) {
  StartTlsServer();
  const FileDescriptor fd = RawConnection();
  Write(fd, TlsCall(5));
  EXPECT_EQ(ReadFrom(fd, 36), StartTlsReply(5));
  const size_t before = program.calls;
  Write(fd, Words({0x8000'0028}) + NullCall(6));
  // RFC 9289 §5.1.1: without a response.
  EXPECT_TRUE(ClosedByServer(fd));
  EXPECT_EQ(program.calls, before);
}

TEST_F(TlsTest, RefusesTlsWhileACallIsUnderWay) {
  StartTlsServer();
  const FileDescriptor fd = RawConnection();
  // The program keeps the reply to this call.
  Write(fd, Words({0x8000'002c, 5, 0, 2, testing::kTestProgram, 3, testing::SlowAdd::kNumber, 0, 0, 0, 0, 1}));
  TurnUntil([&] { return !program.waiting.empty(); });
  Write(fd, TlsCall(6));
  EXPECT_TRUE(ClosedByServer(fd));
}

TEST_F(TlsTest, EndsHandshakesThatDoNotBegin) {
  StartTlsServer({.stall_limit = 200ms});
  const FileDescriptor fd = RawConnection();
  Write(fd, TlsCall(5));
  EXPECT_EQ(ReadFrom(fd, 36), StartTlsReply(5));
  EXPECT_TRUE(ClosedByServer(fd));
}

TEST_F(TlsTest, EndsHandshakesThatStall) {
  StartTlsServer({.stall_limit = 200ms});
  const FileDescriptor fd = RawConnection();
  Write(fd, TlsCall(5));
  EXPECT_EQ(ReadFrom(fd, 36), StartTlsReply(5));
  Write(fd, std::string("\x16\x03\x01\x00", 4));
  EXPECT_TRUE(ClosedByServer(fd));
}

// Peers that send a part of a TLS record within an established session. The header of a record has five octets.
TEST_F(TlsTest, EndsSessionsThatStallInATlsRecord) {
  StartTlsServer({.stall_limit = 2s});
  const std::string record("\x17\x03\x03\x01\x00 half", 10);
  for (const size_t size : {5u, 10u}) {
    const FileDescriptor fd = RawConnection();
    Write(fd, TlsCall(5));
    EXPECT_EQ(ReadFrom(fd, 36), StartTlsReply(5));
    auto session = tls::Session::ForClient(security_.context, fd.get(), loop.buffers(), security_.terms);
    ASSERT_EQ(::fcntl(fd.get(), F_SETFL, O_NONBLOCK), 0);
    TurnUntil([&] { return session->Handshake() == tls::Session::Io::kDone; });
    ASSERT_TRUE(session->established());
    Turn(3s);
    EXPECT_EQ(server->connections(), 1u) << "an idle connection may stay";
    Write(fd, record.substr(0, size));
    TurnUntil([this] { return server->connections() == 0; });
  }
}

// Looks at the sockets of clients when a call arrives, and passes the call on.
class Lookout : public CallHandler {
 public:
  explicit Lookout(CallHandler& to) : to_(to) {}
  Task<Message> HandleCall(Message call, const Peer& peer) override {
    answered = 0;
    for (const int fd : watched) {
      std::byte first;
      if (::recv(fd, &first, 1, MSG_DONTWAIT | MSG_PEEK) == 1) ++answered;
    }
    return to_.HandleCall(std::move(call), peer);
  }
  std::vector<int> watched;
  size_t answered = 0;  // the watched sockets that had received something at the last call

 private:
  CallHandler& to_;
};

TEST_F(TlsTest, AFloodOfHandshakesLetsOtherConnectionsThrough) {
  constexpr size_t kMany = 40;
  Lookout lookout(dispatcher);
  server = std::make_unique<Server>(loop, lookout, ServerOptions{.tls = credentials_});
  ASSERT_TRUE(server->Start(*listener));
  const FileDescriptor plain = RawConnection();
  std::vector<FileDescriptor> sockets;
  std::vector<std::unique_ptr<tls::Session>> sessions;
  for (size_t i = 0; i < kMany; ++i) {
    const FileDescriptor& fd = sockets.emplace_back(RawConnection());
    Write(fd, TlsCall(5));
    EXPECT_EQ(ReadFrom(fd, 36), StartTlsReply(5));
    ASSERT_EQ(::fcntl(fd.get(), F_SETFL, O_NONBLOCK), 0);
    sessions.push_back(tls::Session::ForClient(security_.context, fd.get(), loop.buffers(), security_.terms));
    lookout.watched.push_back(fd.get());
  }
  // All begin before the loop runs again, and the call comes last.
  for (const auto& session : sessions) ASSERT_EQ(session->Handshake(), tls::Session::Io::kWantRead);
  ASSERT_EQ(::send(plain.get(), (Words({0x8000'0028}) + NullCall(6)).data(), 44, MSG_NOSIGNAL), 44);
  EXPECT_EQ(ReadFrom(plain, 28), NullReply(6));
  EXPECT_LT(lookout.answered, kMany / 2) << "the call had to wait for the handshakes";
  // Each handshake gets its turns.
  size_t done = 0;
  TurnUntil([&] {
    for (const auto& session : sessions) {
      if (!session->established() && session->Handshake() == tls::Session::Io::kDone) ++done;
    }
    return done == kMany;
  });
  sessions.clear();
  sockets.clear();
  StopServer(1s);
}

TEST_F(TlsTest, StopsWhileHandshakesWaitForTheirTurns) {
  StartTlsServer();
  std::vector<FileDescriptor> sockets;
  std::vector<std::unique_ptr<tls::Session>> sessions;
  for (size_t i = 0; i < 10; ++i) {
    const FileDescriptor& fd = sockets.emplace_back(RawConnection());
    Write(fd, TlsCall(5));
    EXPECT_EQ(ReadFrom(fd, 36), StartTlsReply(5));
    ASSERT_EQ(::fcntl(fd.get(), F_SETFL, O_NONBLOCK), 0);
    sessions.push_back(tls::Session::ForClient(security_.context, fd.get(), loop.buffers(), security_.terms));
    ASSERT_EQ(sessions.back()->Handshake(), tls::Session::Io::kWantRead);
  }
  StopServer(1s);
}

TEST_F(TlsTest, StopsDuringAHandshake) {
  StartTlsServer();
  const FileDescriptor fd = RawConnection();
  Write(fd, TlsCall(5));
  EXPECT_EQ(ReadFrom(fd, 36), StartTlsReply(5));
  StopServer(1s);
  EXPECT_TRUE(ClosedByServer(fd));
}

TEST_F(TlsTest, GivesTheConnectionANewNumberAndBackChannel) {
  StartTlsServer();
  const FileDescriptor fd = RawConnection();
  Write(fd, Words({0x8000'0028}) + NullCall(4));
  EXPECT_EQ(ReadFrom(fd, 28), NullReply(4));
  const std::shared_ptr<BackChannel> plain = program.last_peer.back_channel;
  ASSERT_TRUE(plain && plain->connected());
  Write(fd, TlsCall(5));
  EXPECT_EQ(ReadFrom(fd, 36), StartTlsReply(5));
  EXPECT_FALSE(plain->connected());
}

TEST_F(TlsTest, NewSessionsUseTheReloadedCertificate) {
  StartTlsServer();
  ConnectSecurely();
  certificates_.Issue("server", {.names = "DNS:renewed.example"});
  ASSERT_TRUE(credentials_->Reload());
  EXPECT_TRUE(Call<testing::Null>());  // over the established session
  EXPECT_THAT(ErrorOfConnect(), HasSubstr("does not name server.example"));
  security_.terms.host = "renewed.example";
  ConnectSecurely();
  EXPECT_TRUE(Call<testing::Null>());
}

// ---- the client ----

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
    std::optional<Result<std::unique_ptr<Channel>, std::string>> result;
    Spawn([](Loop& on, SocketAddress to, ChannelOptions with, ClientSecurity security, auto& out) -> Task<void> {
      out.emplace(co_await Channel::ConnectSecurely(on, to, with, security));
    }(loop, address, options, security_, result));
    TurnUntil([&] { return mute_.waiting > 0 || result.has_value(); });
    EXPECT_FALSE(result);
    when_waiting();
    TurnUntil([&] { return result.has_value(); });
    Turn();
    return *result ? "no error" : result->error();
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
    std::optional<Result<std::unique_ptr<Channel>, std::string>> result;
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
    const std::string why = *result ? "" : result->error();
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
