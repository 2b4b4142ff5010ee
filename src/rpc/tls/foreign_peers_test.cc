// Tests of TLS sessions with peers that are made by OpenSSL alone: protocol names, versions, changes of keys.
#include <openssl/ssl.h>

#include <optional>

#include "rpc/tls/session_test.h"

namespace penstock::rpc::tls {
namespace {

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
  // As a client: runs both handshakes until the server has its outcome, and returns that.
  Io ConnectTo(Session& server) const {
    Io io = Io::kWantRead;
    Until([&] {
      SSL_connect(ssl);
      io = server.Handshake();
      return io != Io::kWantRead;
    });
    return io;
  }

  SSL_CTX* context;
  SSL* ssl;
};

// Linux's tlshd names no protocol.
TEST_F(TlsSessionTest, ToleratesClientsWithoutAlpn) {
  MakeEnds({.host = "server.example"});
  Foreign peer(TLS_client_method(), sockets_.client.get());
  EXPECT_EQ(peer.ConnectTo(*server_), Io::kDone);
  EXPECT_FALSE(server_->facts().named_protocol);
  EXPECT_THAT(server_->facts().ToString(), HasSubstr("no protocol named"));
}

TEST_F(TlsSessionTest, RefusesClientsWithAnotherAlpn) {
  MakeEnds({.host = "server.example"});
  Foreign peer(TLS_client_method(), sockets_.client.get());
  const unsigned char other[] = {2, 'h', '2'};
  SSL_set_alpn_protos(peer.ssl, other, sizeof other);
  EXPECT_EQ(peer.ConnectTo(*server_), Io::kFailed);
  EXPECT_THAT(server_->failure(), HasSubstr("does not offer the protocol sunrpc"));
}

TEST_F(TlsSessionTest, RefusesClientsOfTls12) {
  MakeEnds({.host = "server.example"});
  Foreign peer(TLS_client_method(), sockets_.client.get());
  SSL_set_max_proto_version(peer.ssl, TLS1_2_VERSION);
  EXPECT_EQ(peer.ConnectTo(*server_), Io::kFailed);
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

}  // namespace
}  // namespace penstock::rpc::tls
