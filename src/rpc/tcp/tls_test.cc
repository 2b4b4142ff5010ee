// Tests of TLS on TCP connections: calls within it, and the probe and the handshake at the server.
#include "rpc/tcp/tls_test.h"

namespace penstock::rpc::tcp {
namespace {

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

// ---- the probe and the handshake ----

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

// The server's TLS session reads ahead, so that the call may leave the socket with the end of the handshake.
TEST_F(TlsTest, AnswersACallThatComesTogetherWithTheEndOfTheHandshake) {
  StartTlsServer();
  const FileDescriptor fd = RawConnection();
  Write(fd, TlsCall(5));
  EXPECT_EQ(ReadFrom(fd, 36), StartTlsReply(5));
  const std::unique_ptr<SSL_CTX, decltype(&::SSL_CTX_free)> context(::SSL_CTX_new(::TLS_client_method()),
                                                                    &::SSL_CTX_free);
  const std::unique_ptr<SSL, decltype(&::SSL_free)> session(::SSL_new(context.get()), &::SSL_free);
  constexpr std::string_view kProtocol = "\x06sunrpc";
  ::SSL_set_alpn_protos(session.get(), reinterpret_cast<const unsigned char*>(kProtocol.data()), kProtocol.size());
  BIO* const in = ::BIO_new(::BIO_s_mem());
  BIO* const out = ::BIO_new(::BIO_s_mem());
  ::SSL_set_bio(session.get(), in, out);
  ::SSL_set_connect_state(session.get());
  const auto take = [out] {
    std::string octets(::BIO_ctrl_pending(out), '\0');
    if (!octets.empty()) ::BIO_read(out, octets.data(), static_cast<int>(octets.size()));
    return octets;
  };
  const auto receive = [&] {
    char buffer[4096];
    const ssize_t n = ::recv(fd.get(), buffer, sizeof buffer, MSG_DONTWAIT);
    if (n > 0) ::BIO_write(in, buffer, static_cast<int>(n));
  };
  TurnUntil([&] {
    receive();
    if (::SSL_do_handshake(session.get()) == 1) return true;
    Write(fd, take());
    return false;
  });
  const std::string call = Words({0x8000'0028}) + NullCall(6);
  ASSERT_GT(::SSL_write(session.get(), call.data(), static_cast<int>(call.size())), 0);
  Write(fd, take());
  std::string reply(28, '\0');
  TurnUntil([&] {
    receive();
    return ::SSL_read(session.get(), reply.data(), static_cast<int>(reply.size())) == 28;
  });
  EXPECT_EQ(reply, NullReply(6));
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

}  // namespace
}  // namespace penstock::rpc::tcp
