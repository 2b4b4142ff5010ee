// Tests of TLS sessions, and of the contexts and certificates that they use: both ends over the loopback interface.
#include "rpc/tls/session.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include <fstream>
#include <functional>
#include <string>

#include "base/data.h"
#include "rpc/tls/test_certificates.h"

namespace penstock::rpc::tls {
namespace {

using ::testing::AnyOf;
using testing::CertificateFields;
using ::testing::HasSubstr;
using testing::TestCertificates;
using Io = Session::Io;

// Calls step() until it returns true. Fails the test if that takes long.
template <class Step>
void Until(const Step& step) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(50);
  while (!step()) ASSERT_LT(std::chrono::steady_clock::now(), end);
}

// A pair of connected TCP sockets that do not block.
struct Sockets {
  Sockets() {
    const FileDescriptor listener(::socket(AF_INET, SOCK_STREAM, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    auto* const generic = reinterpret_cast<sockaddr*>(&address);
    socklen_t size = sizeof address;
    EXPECT_EQ(::bind(listener.get(), generic, size), 0);
    EXPECT_EQ(::listen(listener.get(), 1), 0);
    EXPECT_EQ(::getsockname(listener.get(), generic, &size), 0);
    client = FileDescriptor(::socket(AF_INET, SOCK_STREAM, 0));
    EXPECT_EQ(::connect(client.get(), generic, size), 0);
    server = FileDescriptor(::accept(listener.get(), nullptr, nullptr));
    for (const FileDescriptor* each : {&client, &server}) {
      EXPECT_EQ(::fcntl(each->get(), F_SETFL, O_NONBLOCK), 0);
      const int on = 1;
      EXPECT_EQ(::setsockopt(each->get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on), 0);
    }
  }
  FileDescriptor client{-1};
  FileDescriptor server{-1};
};

class TlsSessionTest : public ::testing::Test {
 protected:
  TlsSessionTest()
      : server_files_(certificates_.Issue("server", {.subject = "server", .names = "DNS:server.example,IP:127.0.0.1"})),
        client_files_(certificates_.Issue("client", {.subject = "client", .names = "DNS:client.example"})) {
    // The server trusts nobody by default.
    server_files_.authorities.clear();
  }

  void MakeEnds(const ClientTerms& terms) {
    auto for_server = Context::ForServer(server_files_);
    ASSERT_TRUE(for_server) << for_server.error().message;
    auto for_client = Context::ForClient(client_files_);
    ASSERT_TRUE(for_client) << for_client.error().message;
    server_ = Session::ForServer(*for_server, sockets_.server.get(), pool_);
    client_ = Session::ForClient(*for_client, sockets_.client.get(), pool_, terms);
  }

  // Runs both handshakes to their ends. Returns true if both succeed.
  bool Handshake() {
    Io of_server = Io::kWantRead;
    Io of_client = Io::kWantRead;
    const auto waits = [](Io io) { return io == Io::kWantRead || io == Io::kWantWrite; };
    Until([&] {
      if (waits(of_client)) of_client = client_->Handshake();
      if (waits(of_server)) of_server = server_->Handshake();
      return !waits(of_server) && !waits(of_client);
    });
    return of_server == Io::kDone && of_client == Io::kDone;
  }
  bool Connect(const ClientTerms& terms = {.host = "server.example"}) {
    MakeEnds(terms);
    return Handshake();
  }

  // Seals and sends as much of the rest of `text` as is possible.
  static void SendSome(Session& from, std::string_view& text) {
    while (!text.empty() && from.has_room()) {
      const std::string_view piece = text.substr(0, Session::kPiece);
      ASSERT_TRUE(from.Seal(AsBytes(piece)));
      text.remove_prefix(piece.size());
    }
    const Io io = from.Flush();
    ASSERT_TRUE(io == Io::kDone || io == Io::kWantWrite);
  }
  // Reads until `size` octets have arrived, in pieces of at most `piece` octets.
  static std::string Read(Session& to, size_t size, size_t piece, const std::function<void()>& meanwhile = [] {}) {
    std::string text;
    std::string buffer(piece, '\0');
    Until([&] {
      size_t received = 0;
      const Io io = to.Read(std::as_writable_bytes(std::span(buffer)), received);
      if (io == Io::kDone) text.append(buffer, 0, received);
      if (io == Io::kWantRead) meanwhile();
      return text.size() >= size || (io != Io::kDone && io != Io::kWantRead);
    });
    return text;
  }
  // Reads until the peer's answer to the handshake has arrived, and returns the outcome.
  static Io ReadEnd(Session& at) {
    std::byte octet;
    size_t received = 0;
    Io io = Io::kWantRead;
    Until([&] {
      io = at.Read(Bytes(&octet, 1), received);
      return io != Io::kWantRead;
    });
    return io;
  }

  TestCertificates certificates_;
  Files server_files_;
  Files client_files_;
  BufferPool pool_;
  Sockets sockets_;
  std::unique_ptr<Session> server_;
  std::unique_ptr<Session> client_;
};

TEST_F(TlsSessionTest, AuthenticatesTheServerAlone) {
  ASSERT_TRUE(Connect()) << client_->failure() << server_->failure();
  EXPECT_EQ(client_->facts().version, "TLSv1.3");
  EXPECT_THAT(client_->facts().cipher, HasSubstr("TLS_"));
  EXPECT_FALSE(client_->facts().mutual);
  EXPECT_TRUE(client_->facts().peer->Names("server.example"));
  EXPECT_TRUE(client_->facts().named_protocol);
  EXPECT_TRUE(server_->facts().named_protocol);
  EXPECT_FALSE(server_->facts().mutual);
  EXPECT_EQ(server_->facts().peer, nullptr);
}

TEST_F(TlsSessionTest, AuthenticatesBothSides) {
  server_files_.authorities = certificates_.authority();
  ASSERT_TRUE(Connect({.host = "127.0.0.1", .mutual = true})) << client_->failure() << server_->failure();
  EXPECT_TRUE(client_->facts().mutual);
  ASSERT_TRUE(server_->facts().mutual);
  EXPECT_TRUE(server_->facts().peer->Names("client.example"));
  EXPECT_FALSE(server_->facts().peer->Names("server.example"));
}

TEST_F(TlsSessionTest, ConveysOctetsInPiecesOfEverySize) {
  ASSERT_TRUE(Connect());
  const std::string text(300'001, 'x');
  for (const size_t piece : {size_t{1000}, size_t{16384}, size_t{1} << 20}) {
    std::string_view left = text;
    SendSome(*client_, left);
    EXPECT_EQ(Read(*server_, text.size(), piece, [&] { SendSome(*client_, left); }), text);
  }
  std::string_view word = "word";
  SendSome(*server_, word);
  EXPECT_EQ(Read(*client_, 4, 1), "word");
}

TEST_F(TlsSessionTest, WaitsForAPeerThatDoesNotRead) {
  ASSERT_TRUE(Connect());
  const std::string text(64 << 20, 'y');
  std::string_view left = text;
  for (int i = 0; i < 1000; ++i) SendSome(*client_, left);
  ASSERT_FALSE(left.empty());
  EXPECT_EQ(client_->Flush(), Io::kWantWrite);
  EXPECT_LE(client_->pending(), client_->pending_memory());
  EXPECT_EQ(Read(*server_, text.size(), 1 << 20, [&] { SendSome(*client_, left); }), text);
  EXPECT_EQ(client_->pending_memory(), 0u);
}

TEST_F(TlsSessionTest, TellsACloseFromALostConnection) {
  ASSERT_TRUE(Connect());
  client_->Close();
  EXPECT_EQ(ReadEnd(*server_), Io::kEnd);
  EXPECT_EQ(server_->failure(), "");
}

TEST_F(TlsSessionTest, ReportsAnEndWithoutCloseNotify) {
  ASSERT_TRUE(Connect());
  ASSERT_EQ(::shutdown(sockets_.client.get(), SHUT_WR), 0);
  EXPECT_EQ(ReadEnd(*server_), Io::kEnd);
  EXPECT_EQ(server_->failure(), "the connection was lost");
}

TEST_F(TlsSessionTest, RefusesOctetsThatWereNotSealed) {
  ASSERT_TRUE(Connect());
  const std::string_view plain("\x80\x00\x00\x04 data in plain text", 24);
  ASSERT_GT(::send(sockets_.client.get(), plain.data(), plain.size(), MSG_NOSIGNAL), 0);
  EXPECT_EQ(ReadEnd(*server_), Io::kFailed);
  EXPECT_NE(server_->failure(), "");
}

TEST_F(TlsSessionTest, RefusesAServerOfAnotherAuthority) {
  TestCertificates others;
  client_files_.authorities = others.authority();
  EXPECT_FALSE(Connect());
  EXPECT_THAT(client_->failure(), HasSubstr("the server's certificate is not trusted"));
  EXPECT_THAT(client_->failure(), HasSubstr("--tls-ca"));
  EXPECT_THAT(server_->failure(), HasSubstr("the client refuses the handshake"));
}

TEST_F(TlsSessionTest, RefusesAServerWithAnotherName) {
  EXPECT_FALSE(Connect({.host = "other.example"}));
  EXPECT_THAT(client_->failure(), HasSubstr("does not name other.example, it names server.example, 127.0.0.1"));
}

TEST_F(TlsSessionTest, RefusesAServerWithAnotherAddress) {
  EXPECT_FALSE(Connect({.host = "127.0.0.2"}));
  EXPECT_THAT(client_->failure(), HasSubstr("does not name 127.0.0.2"));
}

// RFC 9289 §5.2.1: without a dNSName, OpenSSL itself would compare the subject.
TEST_F(TlsSessionTest, IgnoresTheSubjectOfACertificateWithoutNames) {
  server_files_ = certificates_.Issue("subject", {.subject = "server.example"});
  EXPECT_FALSE(Connect());
  EXPECT_THAT(client_->failure(), HasSubstr("does not name server.example"));
}

TEST_F(TlsSessionTest, IgnoresTheSubjectOfACertificateWithAnAddress) {
  server_files_ = certificates_.Issue("address", {.subject = "server.example", .names = "IP:127.0.0.1"});
  EXPECT_FALSE(Connect());
  EXPECT_THAT(client_->failure(), HasSubstr("does not name server.example, it names 127.0.0.1"));
}

TEST_F(TlsSessionTest, IgnoresWildcards) {
  server_files_ = certificates_.Issue("wild", {.names = "DNS:*.example"});
  EXPECT_FALSE(Connect());
  EXPECT_THAT(client_->failure(), HasSubstr("does not name server.example"));
}

TEST_F(TlsSessionTest, RefusesAnEmptyHostName) {
  MakeEnds({.host = ""});
  EXPECT_EQ(client_->Handshake(), Io::kFailed);
}

TEST_F(TlsSessionTest, RefusesExpiredServers) {
  server_files_ = certificates_.Issue("old", {.names = "DNS:server.example", .valid_from = -7200, .valid_to = -60});
  EXPECT_FALSE(Connect());
  EXPECT_THAT(client_->failure(), HasSubstr("not valid now"));
}

TEST_F(TlsSessionTest, RefusesRevokedServers) {
  const Files revoked = certificates_.Issue("revoked", {.names = "DNS:server.example"});
  certificates_.Revoke(revoked.certificate);
  server_files_ = {.certificate = revoked.certificate, .key = revoked.key, .authorities = {}};
  EXPECT_FALSE(Connect());
  EXPECT_THAT(client_->failure(), HasSubstr("revoked"));
}

// A client learns of the refusal after its own handshake.
class RefusedClientTest : public TlsSessionTest {
 protected:
  RefusedClientTest() { server_files_.authorities = certificates_.authority(); }
  void ExpectRefusal(const char* why, const char* alert) {
    EXPECT_FALSE(Connect({.host = "server.example", .mutual = true}));
    EXPECT_THAT(server_->failure(), HasSubstr(why));
    ASSERT_TRUE(client_->established());
    EXPECT_EQ(ReadEnd(*client_), Io::kFailed);
    EXPECT_THAT(client_->failure(), HasSubstr(alert));
    EXPECT_TRUE(client_->refused_by_peer());
  }
};

TEST_F(RefusedClientTest, IsExpired) {
  client_files_ = certificates_.Issue("old", {.names = "DNS:client.example", .valid_from = -7200, .valid_to = -60});
  ExpectRefusal("the client's certificate is not valid now", "expired");
}

TEST_F(RefusedClientTest, IsRevoked) {
  client_files_ = certificates_.Issue("revoked", {.names = "DNS:client.example"});
  certificates_.Revoke(client_files_.certificate);
  ExpectRefusal("revoked", "revoked");
}

// RFC 9289 §5.2.1.1
TEST_F(RefusedClientTest, HasTheCertificateOfAServer) {
  client_files_ = certificates_.Issue("not-client", {.names = "DNS:client.example", .usage = "serverAuth"});
  ExpectRefusal("the client's certificate has an extended key usage that is not for a client", "alert");
}

TEST_F(RefusedClientTest, BelongsToAnAuthorityWithoutARevocationList) {
  TestCertificates others("Another authority");
  client_files_ = others.Issue("stranger", {.names = "DNS:client.example"});
  client_files_.authorities = certificates_.authority();
  const Files revoked = certificates_.Issue("revoked", {.names = "DNS:revoked.example"});
  server_files_.authorities = certificates_.Path("both.pem");
  std::ofstream both(server_files_.authorities);
  both << std::ifstream(others.authority()).rdbuf();
  client_files_.authorities = certificates_.Path("plain.pem");
  std::ofstream(client_files_.authorities) << std::ifstream(certificates_.authority()).rdbuf();
  certificates_.Revoke(revoked.certificate);
  both << std::ifstream(certificates_.authority()).rdbuf();
  both.close();
  ExpectRefusal("has no revocation list", "alert");
}

TEST_F(TlsSessionTest, RefusesClientsOfUnknownAuthorities) {
  // No authority is trusted, so that no certificate of a client is.
  EXPECT_FALSE(Connect({.host = "server.example", .mutual = true}));
  EXPECT_THAT(server_->failure(), HasSubstr("the client's certificate is not trusted"));
  ASSERT_TRUE(client_->established());
  EXPECT_EQ(ReadEnd(*client_), Io::kFailed);
  EXPECT_THAT(client_->failure(), HasSubstr("unknown ca"));
}

// RFC 9289 §5.2.1.1
TEST_F(TlsSessionTest, AcceptsTheUsagesOfRpc) {
  server_files_ = certificates_.Issue("rpc-server", {.names = "DNS:server.example", .usage = "1.3.6.1.5.5.7.3.34"});
  client_files_ = certificates_.Issue("rpc-client", {.names = "DNS:client.example", .usage = "1.3.6.1.5.5.7.3.33"});
  EXPECT_TRUE(Connect({.host = "server.example", .mutual = true})) << client_->failure() << server_->failure();
}

TEST_F(TlsSessionTest, RefusesAClientsCertificateAsAServers) {
  server_files_ = certificates_.Issue("not-server", {.names = "DNS:server.example", .usage = "clientAuth"});
  EXPECT_FALSE(Connect());
  EXPECT_THAT(client_->failure(), HasSubstr("extended key usage"));
}

// A peer that is made by OpenSSL alone.
struct Foreign {
  Foreign(const SSL_METHOD* method, int fd) : context(SSL_CTX_new(method)) {
    SSL_CTX_set_verify(context, SSL_VERIFY_NONE, nullptr);
    ssl = SSL_new(context);
    SSL_set_fd(ssl, fd);
  }
  ~Foreign() {
    SSL_free(ssl);
    SSL_CTX_free(context);
  }
  SSL_CTX* context;
  SSL* ssl;
};

// Linux's tlshd names no protocol.
TEST_F(TlsSessionTest, ToleratesClientsWithoutAlpn) {
  MakeEnds({.host = "server.example"});
  Foreign peer(TLS_client_method(), sockets_.client.get());
  Io io = Io::kWantRead;
  Until([&] {
    SSL_connect(peer.ssl);
    io = server_->Handshake();
    return io != Io::kWantRead;
  });
  EXPECT_EQ(io, Io::kDone);
  EXPECT_FALSE(server_->facts().named_protocol);
  EXPECT_THAT(server_->facts().ToString(), HasSubstr("no protocol named"));
}

TEST_F(TlsSessionTest, RefusesClientsWithAnotherAlpn) {
  MakeEnds({.host = "server.example"});
  Foreign peer(TLS_client_method(), sockets_.client.get());
  const unsigned char other[] = {2, 'h', '2'};
  SSL_set_alpn_protos(peer.ssl, other, sizeof other);
  Io io = Io::kWantRead;
  Until([&] {
    SSL_connect(peer.ssl);
    io = server_->Handshake();
    return io != Io::kWantRead;
  });
  EXPECT_EQ(io, Io::kFailed);
  EXPECT_THAT(server_->failure(), HasSubstr("does not offer the protocol sunrpc"));
}

TEST_F(TlsSessionTest, RefusesClientsOfTls12) {
  MakeEnds({.host = "server.example"});
  Foreign peer(TLS_client_method(), sockets_.client.get());
  SSL_set_max_proto_version(peer.ssl, TLS1_2_VERSION);
  Io io = Io::kWantRead;
  Until([&] {
    SSL_connect(peer.ssl);
    io = server_->Handshake();
    return io != Io::kWantRead;
  });
  EXPECT_EQ(io, Io::kFailed);
  EXPECT_THAT(server_->failure(), HasSubstr("does not speak TLS 1.3"));
}

// A server that is made by OpenSSL alone, and names the protocol `alpn` to every client; none if it is empty.
class ForeignServerTest : public TlsSessionTest {
 protected:
  Io HandshakeWith(int most_version, std::string alpn, const ClientTerms& terms = {.host = "server.example"}) {
    MakeEnds(terms);
    Foreign peer(TLS_server_method(), sockets_.server.get());
    SSL_use_certificate_chain_file(peer.ssl, server_files_.certificate.c_str());
    SSL_use_PrivateKey_file(peer.ssl, server_files_.key.c_str(), SSL_FILETYPE_PEM);
    SSL_set_max_proto_version(peer.ssl, most_version);
    if (!alpn.empty()) {
      SSL_CTX_set_alpn_select_cb(
          peer.context,
          [](SSL*, const unsigned char** out, unsigned char* size, const unsigned char*, unsigned, void* name) {
            const auto& text = *static_cast<std::string*>(name);
            *out = reinterpret_cast<const unsigned char*>(text.data());
            *size = static_cast<unsigned char>(text.size());
            return SSL_TLSEXT_ERR_OK;
          },
          &alpn);
    }
    Io io = Io::kWantRead;
    Until([&] {
      io = client_->Handshake();
      SSL_accept(peer.ssl);
      return io != Io::kWantRead;
    });
    return io;
  }
};

TEST_F(ForeignServerTest, RefusesServersOfTls12) {
  EXPECT_EQ(HandshakeWith(TLS1_2_VERSION, "sunrpc"), Io::kFailed);
  EXPECT_THAT(client_->failure(), HasSubstr("refuses the handshake"));
}

TEST_F(ForeignServerTest, RefusesServersWithAnotherAlpn) {
  EXPECT_EQ(HandshakeWith(TLS1_3_VERSION, "h2"), Io::kFailed);
  // OpenSSL refuses it itself from some version on.
  EXPECT_THAT(client_->failure(), AnyOf(HasSubstr("names another protocol than sunrpc"), HasSubstr("bad extension")));
}

// Linux's tlshd names no protocol.
TEST_F(ForeignServerTest, ToleratesServersWithoutAlpn) {
  EXPECT_EQ(HandshakeWith(TLS1_3_VERSION, ""), Io::kDone);
  EXPECT_FALSE(client_->facts().named_protocol);
}

TEST_F(ForeignServerTest, MutualAuthenticationNeedsTheServersRequest) {
  EXPECT_EQ(HandshakeWith(TLS1_3_VERSION, "sunrpc", {.host = "server.example", .mutual = true}), Io::kFailed);
  EXPECT_THAT(client_->failure(), HasSubstr("does not ask for this client's certificate"));
}

// A connected foreign client of the server.
class ForeignClientTest : public TlsSessionTest {
 protected:
  ForeignClientTest() {
    MakeEnds({.host = "server.example"});
    peer_.emplace(TLS_client_method(), sockets_.client.get());
    const unsigned char sunrpc[] = {6, 's', 'u', 'n', 'r', 'p', 'c'};
    SSL_set_alpn_protos(peer_->ssl, sunrpc, sizeof sunrpc);
    Io io = Io::kWantRead;
    Until([&] {
      SSL_connect(peer_->ssl);
      if (io == Io::kWantRead) io = server_->Handshake();
      return io != Io::kWantRead && SSL_is_init_finished(peer_->ssl);
    });
    EXPECT_EQ(io, Io::kDone);
  }
  std::optional<Foreign> peer_;
};

TEST_F(ForeignClientTest, FollowsAChangeOfKeys) {
  ASSERT_EQ(SSL_key_update(peer_->ssl, SSL_KEY_UPDATE_REQUESTED), 1);
  ASSERT_EQ(SSL_write(peer_->ssl, "hello", 5), 5);
  EXPECT_EQ(Read(*server_, 5, 5), "hello");
  std::string_view answer = "answer";
  SendSome(*server_, answer);
  char buffer[8];
  int n = 0;
  Until([&] { return (n = SSL_read(peer_->ssl, buffer, sizeof buffer)) > 0; });
  EXPECT_EQ(std::string(buffer, static_cast<size_t>(n)), "answer");
}

TEST_F(ForeignClientTest, EndsASessionThatChangesKeysAllTheTime) {
  for (int i = 0; i < 1000; ++i) {
    if (SSL_key_update(peer_->ssl, SSL_KEY_UPDATE_NOT_REQUESTED) != 1 || SSL_do_handshake(peer_->ssl) != 1) break;
  }
  EXPECT_EQ(ReadEnd(*server_), Io::kFailed);
  EXPECT_THAT(server_->failure(), HasSubstr("too many TLS messages"));
}

// Counts the changes of keys that a peer receives.
void CountKeyUpdates(int sent, int, int type, const void* data, size_t size, SSL*, void* count) {
  if (sent || type != SSL3_RT_HANDSHAKE || size == 0) return;
  if (*static_cast<const uint8_t*>(data) == SSL3_MT_KEY_UPDATE) ++*static_cast<int*>(count);
}

TEST_F(ForeignClientTest, GetsANewKeyAfterManyRecords) {
  if (server_->kernel_sends()) GTEST_SKIP() << "the kernel seals";
  int changes = 0;
  SSL_set_msg_callback(peer_->ssl, &CountKeyUpdates);
  SSL_set_msg_callback_arg(peer_->ssl, &changes);
  server_->set_records_per_key(3);
  std::string received;
  for (int i = 0; i < 10; ++i) {
    std::string_view word = "word";
    SendSome(*server_, word);
    char buffer[8];
    int n = 0;
    Until([&] { return (n = SSL_read(peer_->ssl, buffer, sizeof buffer)) > 0; });
    received.append(buffer, static_cast<size_t>(n));
  }
  EXPECT_EQ(received.size(), 40u);
  EXPECT_EQ(changes, 3) << "before the records 4, 7 and 10";
}

TEST_F(TlsSessionTest, ChangesKeysWhileThePeerDoesNotRead) {
  ASSERT_TRUE(Connect());
  if (client_->kernel_sends()) GTEST_SKIP() << "the kernel seals";
  client_->set_records_per_key(1);
  const std::string text(16 << 20, 'z');
  std::string_view left = text;
  for (int i = 0; i < 1000; ++i) SendSome(*client_, left);
  ASSERT_FALSE(left.empty());
  EXPECT_EQ(Read(*server_, text.size(), 1 << 20, [&] { SendSome(*client_, left); }), text);
}

TEST_F(TlsSessionTest, KnowsThatARecordHasBegun) {
  ASSERT_TRUE(Connect());
  size_t sent = 0;
  const std::string begun("\x17\x03\x03\x01\x00 half", 10);
  size_t received = 0;
  std::byte octet;
  for (const size_t size : {size_t{1}, size_t{4}, size_t{5}, size_t{6}, size_t{10}}) {
    // The octets of the record arrive one after the other, and the record never ends.
    ASSERT_GT(::send(sockets_.client.get(), begun.data() + sent, size - sent, MSG_NOSIGNAL), 0);
    sent = size;
    Until([&] {
      EXPECT_EQ(server_->Read(Bytes(&octet, 1), received), Io::kWantRead);
      return server_->mid_record();
    });
  }
}

TEST_F(TlsSessionTest, KnowsThatOnlyTheHeaderOfARecordHasCome) {
  ASSERT_TRUE(Connect());
  std::string_view word = "word";
  SendSome(*client_, word);
  EXPECT_EQ(Read(*server_, 4, 4), "word");
  EXPECT_FALSE(server_->mid_record());
  // A complete record, and the header of the next one behind it.
  word = "more";
  SendSome(*client_, word);
  ASSERT_EQ(::send(sockets_.client.get(), "\x17\x03\x03\x01\x00", 5, MSG_NOSIGNAL), 5);
  EXPECT_EQ(Read(*server_, 4, 4), "more");
  size_t received = 0;
  std::byte octet;
  Until([&] {
    EXPECT_EQ(server_->Read(Bytes(&octet, 1), received), Io::kWantRead);
    return server_->mid_record();
  });
}

TEST_F(ForeignClientTest, GivesNoTicket) {
  std::string_view answer = "answer";
  SendSome(*server_, answer);
  char buffer[8];
  int n = 0;
  Until([&] { return (n = SSL_read(peer_->ssl, buffer, sizeof buffer)) > 0; });
  ASSERT_EQ(n, 6);
  EXPECT_EQ(SSL_SESSION_is_resumable(SSL_get_session(peer_->ssl)), 0);
}

// ---- files ----

TEST_F(TlsSessionTest, NamesTheFileThatCannotBeUsed) {
  const auto missing =
      Context::ForServer({.certificate = "/nonexistent.pem", .key = server_files_.key, .authorities = {}});
  EXPECT_EQ(missing.error().message, "TLS certificate /nonexistent.pem: No such file or directory");
  const auto mixed =
      Context::ForServer({.certificate = server_files_.certificate, .key = client_files_.key, .authorities = {}});
  EXPECT_THAT(mixed.error().message, HasSubstr("is not the key of the certificate"));
  const std::string garbage = certificates_.Path("garbage.pem");
  std::ofstream(garbage) << "no certificate";
  EXPECT_THAT(Context::ForClient({.certificate = {}, .key = {}, .authorities = garbage}).error().message,
              HasSubstr("TLS authorities " + garbage));
}

TEST_F(TlsSessionTest, ReloadsCertificates) {
  auto credentials = Credentials::Load(server_files_);
  ASSERT_TRUE(credentials);
  const auto before = (*credentials)->current();
  certificates_.Issue("server", {.names = "DNS:renewed.example"});
  ASSERT_TRUE((*credentials)->Reload());
  auto client = Context::ForClient(client_files_);
  server_ = Session::ForServer((*credentials)->current(), sockets_.server.get(), pool_);
  client_ = Session::ForClient(*client, sockets_.client.get(), pool_, {.host = "renewed.example"});
  EXPECT_TRUE(Handshake()) << client_->failure();
  EXPECT_NE((*credentials)->current(), before);
}

TEST_F(TlsSessionTest, AFailedReloadChangesNothing) {
  auto credentials = Credentials::Load(server_files_);
  ASSERT_TRUE(credentials);
  const auto before = (*credentials)->current();
  std::ofstream(server_files_.certificate) << "half a certificate";
  const auto reloaded = (*credentials)->Reload();
  ASSERT_FALSE(reloaded);
  EXPECT_THAT(reloaded.error().message, HasSubstr(server_files_.certificate));
  EXPECT_EQ((*credentials)->current(), before);
}

TEST(TlsCertificateTest, ComparesNamesInBothCasesAndAddressesAsNumbers) {
  Certificate certificate;
  certificate.hosts = {"Host.Example", "*.wild.example"};
  certificate.addresses = {asio::ip::make_address("192.0.2.1"), asio::ip::make_address("2001:db8::1")};
  EXPECT_TRUE(certificate.Names("hOST.eXAMPLE"));
  EXPECT_FALSE(certificate.Names("a.wild.example"));
  EXPECT_FALSE(certificate.Names("*.wild.example"));
  EXPECT_TRUE(certificate.Names("2001:DB8:0::1"));
  EXPECT_TRUE(certificate.Names(asio::ip::make_address("::ffff:192.0.2.1")));
  EXPECT_FALSE(certificate.Names("192.0.2.2"));
}

TEST_F(TlsSessionTest, ARenewedCertificateHasTheSameKeyOfNames) {
  const auto key_of = [this](const CertificateFields& fields) {
    const Files files = certificates_.Issue("names", fields);
    std::unique_ptr<FILE, int (*)(FILE*)> in(std::fopen(files.certificate.c_str(), "r"), &std::fclose);
    X509* const read = PEM_read_X509(in.get(), nullptr, nullptr, nullptr);
    const std::string key = Certificate::Of(read).names_key;
    X509_free(read);
    return key;
  };
  const std::string key = key_of({.subject = "a", .names = "DNS:a.example,DNS:b.example,IP:127.0.0.1"});
  EXPECT_EQ(key, key_of({.subject = "b", .names = "IP:127.0.0.1,DNS:B.example,DNS:a.example"}));
  EXPECT_NE(key, key_of({.subject = "a", .names = "DNS:a.example,DNS:b.example"}));
  EXPECT_NE(key_of({.subject = "a"}), key_of({.subject = "b"}));
}

TEST(TlsCertificateTest, BoundsAndCleansNamesForLogs) {
  Certificate certificate;
  certificate.hosts = {std::string(1000, 'a'), "line\nbreak"};
  for (int i = 0; i < 100; ++i) certificate.hosts.push_back("more");
  const std::string line = certificate.ToString();
  EXPECT_LT(line.size(), 1000u);
  EXPECT_THAT(line, HasSubstr("line?break"));
}

}  // namespace
}  // namespace penstock::rpc::tls
