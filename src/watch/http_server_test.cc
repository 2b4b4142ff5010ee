#include "watch/http_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <asio/ip/tcp.hpp>
#include <string>
#include <vector>

#include "base/data.h"
#include "base/result.h"

namespace penstock::watch {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

SocketAddress Loopback(uint16_t port = 0) { return {asio::ip::make_address("127.0.0.1"), port}; }

FileDescriptor Connect(const SocketAddress& to) {
  FileDescriptor socket(::socket(to.protocol().family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
  EXPECT_EQ(::connect(socket.get(), to.data(), static_cast<socklen_t>(to.size())), 0);
  return socket;
}

std::string Ask(const SocketAddress& server, const std::string& request) {
  const FileDescriptor socket = Connect(server);
  EXPECT_EQ(::send(socket.get(), request.data(), request.size(), MSG_NOSIGNAL), static_cast<ssize_t>(request.size()));
  std::string answer;
  char part[4096];
  for (ssize_t size; (size = ::recv(socket.get(), part, sizeof part, 0)) > 0;) answer.append(part, part + size);
  return answer;
}

std::string Get(const SocketAddress& server, const std::string& path) {
  return Ask(server, "GET " + path + " HTTP/1.1\r\nHost: localhost\r\n\r\n");
}

std::unique_ptr<HttpServer> Serve(HttpServer::Pages pages) {
  auto server = HttpServer::Open(Loopback(), std::move(pages));
  EXPECT_TRUE(server) << server.error().message;
  return *std::move(server);
}

TEST(HttpServerTest, AnswersGetWithThePage) {
  const auto server = Serve({{"/a", [] { return Response{.body = "hello"}; }},
                             {"/b", [] { return Response{.status = 503, .body = "later"}; }}});
  EXPECT_NE(server->local().port(), 0);
  EXPECT_THAT(Get(server->local(), "/a"), StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_THAT(Get(server->local(), "/a"), HasSubstr("\r\n\r\nhello"));
  EXPECT_THAT(Get(server->local(), "/b"), StartsWith("HTTP/1.1 503 "));
}

TEST(HttpServerTest, IgnoresTheQuery) {
  const auto server = Serve({{"/a", [] { return Response{.body = "hello"}; }}});
  EXPECT_THAT(Get(server->local(), "/a?x=1"), HasSubstr("hello"));
}

TEST(HttpServerTest, ServesNothingElse) {
  const auto server = Serve({{"/a", [] { return Response{.body = "hello"}; }}});
  for (const char* path : {"/", "/b", "/etc/passwd", "/../etc/passwd", "/a/b"}) {
    EXPECT_THAT(Get(server->local(), path), Not(HasSubstr(" 200 "))) << path;
  }
}

TEST(HttpServerTest, RefusesOtherMethods) {
  const auto server = Serve({{"/a", [] { return Response{.body = "hello"}; }}});
  for (const std::string method : {"POST", "PUT", "DELETE", "OPTIONS"}) {
    const std::string answer =
        Ask(server->local(), method + " /a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n");
    EXPECT_THAT(answer, Not(HasSubstr("hello"))) << method;
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 4")) << method;
  }
}

TEST(HttpServerTest, HeadHasNoBody) {
  const auto server = Serve({{"/a", [] { return Response{.body = "hello"}; }}});
  const std::string answer = Ask(server->local(), "HEAD /a HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_THAT(answer, HasSubstr("Content-Length: 5\r\n"));
  EXPECT_THAT(answer, Not(HasSubstr("hello")));
}

TEST(HttpServerTest, SaysWhichPortIsTaken) {
  const auto first = Serve({});
  const auto second = HttpServer::Open(first->local(), {});
  ASSERT_FALSE(second);
  EXPECT_THAT(second.error().message, HasSubstr("127.0.0.1:" + std::to_string(first->local().port())));
  EXPECT_THAT(second.error().message, HasSubstr("is another server running there?"));
}

TEST(HttpServerTest, ServesWhileOthersSendNothing) {
  const auto server = Serve({{"/a", [] { return Response{.body = "hello"}; }}});
  std::vector<FileDescriptor> idle;
  for (int i = 0; i < 7; ++i) idle.push_back(Connect(server->local()));
  EXPECT_THAT(Get(server->local(), "/a"), HasSubstr("hello"));
}

// Returns a connection from an address of this host, for whose end the test waits at most some seconds.
FileDescriptor ConnectFrom(const char* address, const SocketAddress& to) {
  FileDescriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const SocketAddress from(asio::ip::make_address(address), 0);
  EXPECT_EQ(::bind(socket.get(), from.data(), static_cast<socklen_t>(from.size())), 0);
  EXPECT_EQ(::connect(socket.get(), to.data(), static_cast<socklen_t>(to.size())), 0);
  const timeval patience{.tv_sec = 20, .tv_usec = 0};
  ::setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  return socket;
}

TEST(HttpServerTest, OneAddressTakesOnlyAShareOfTheConnections) {
  const auto server = Serve({{"/a", [] { return Response{.body = "hello"}; }}});
  std::vector<FileDescriptor> idle;
  for (int i = 0; i < 40; ++i) idle.push_back(ConnectFrom("127.0.0.2", server->local()));
  EXPECT_THAT(Get(server->local(), "/a"), HasSubstr("hello"));
}

TEST(HttpServerTest, DisconnectsAPeerWhoseRequestDoesNotEnd) {
  auto server = HttpServer::Open(Loopback(), {{"/a", [] { return Response{.body = "hello"}; }}},
                                 {.head = std::chrono::milliseconds(100), .whole = std::chrono::seconds(20)});
  ASSERT_TRUE(server);
  const FileDescriptor slow = ConnectFrom("127.0.0.1", (*server)->local());
  const std::string part = "GET /a HTTP/1.1\r\nHost: localhost\r\nX: ";
  EXPECT_GT(::send(slow.get(), part.data(), part.size(), MSG_NOSIGNAL), 0);
  char octet;
  EXPECT_LE(::recv(slow.get(), &octet, 1, 0), 0);
  EXPECT_NE(errno, EAGAIN) << "the server has kept the connection";
}

TEST(HttpServerTest, AnswersOnlyToNamesOfThisHost) {
  const auto server = Serve({{"/a", [] { return Response{.body = "hello"}; }}});
  const auto ask = [&](const std::string& host) {
    return Ask(server->local(), "GET /a HTTP/1.1\r\nHost: " + host + "\r\n\r\n");
  };
  EXPECT_THAT(ask("127.0.0.1:9469"), HasSubstr("hello"));
  EXPECT_THAT(ask("evil.example:9469"), StartsWith("HTTP/1.1 421 "));
  EXPECT_THAT(ask("evil.example:9469"), Not(HasSubstr("hello")));
  EXPECT_THAT(Ask(server->local(), "GET /a HTTP/1.0\r\n\r\n"), HasSubstr("hello")) << "no browser asks without a name";
}

TEST(HttpServerTest, DoesNotDecodePaths) {
  const auto server = Serve({{"/", [] { return Response{.body = "hello"}; }}});
  EXPECT_THAT(Get(server->local(), "/%00"), StartsWith("HTTP/1.1 404 "));
  EXPECT_THAT(Get(server->local(), "/%2e"), StartsWith("HTTP/1.1 404 "));
}

TEST(HttpServerTest, ServesIpv6) {
  auto server =
      HttpServer::Open({asio::ip::make_address("::1"), 0}, {{"/a", [] { return Response{.body = "hello"}; }}});
  if (!server) GTEST_SKIP() << server.error().message;
  EXPECT_THAT(Get((*server)->local(), "/a"), HasSubstr("hello"));
}

TEST(ParseEndpointTest, TakesPortsAndAddresses) {
  EXPECT_EQ(ParseEndpoint("9469"), Loopback(9469));
  EXPECT_EQ(ParseEndpoint("10.0.0.1:80"), SocketAddress(asio::ip::make_address("10.0.0.1"), 80));
  EXPECT_EQ(ParseEndpoint("[::1]:80"), SocketAddress(asio::ip::make_address("::1"), 80));
  EXPECT_EQ(ParseEndpoint("0.0.0.0:0"), SocketAddress(asio::ip::make_address("0.0.0.0"), 0));
}

TEST(ParseEndpointTest, RefusesEverythingElse) {
  for (const char* text :
       {"", ":", "x", "65536", "-1", "9469x", "host:9469", "::1:9469", "[::1]", "[::1", "1.2.3:80"}) {
    EXPECT_FALSE(ParseEndpoint(text)) << text;
  }
}

}  // namespace
}  // namespace penstock::watch
