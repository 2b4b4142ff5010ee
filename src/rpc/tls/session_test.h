// The fixture for tests of TLS sessions: both ends over the loopback interface.
#pragma once

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/data.h"
#include "rpc/tls/session.h"
#include "rpc/tls/test_certificates.h"

namespace penstock::rpc::tls {

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

}  // namespace penstock::rpc::tls
