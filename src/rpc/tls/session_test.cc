// Tests of TLS sessions between a server and a client of this library: who is accepted, and what is conveyed.
#include "rpc/tls/session_test.h"

namespace penstock::rpc::tls {
namespace {

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

}  // namespace
}  // namespace penstock::rpc::tls
