#include "watch/http_server.h"

#include <fcntl.h>
#include <fmt/ostream.h>
#include <microhttpd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <asio/ip/tcp.hpp>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <utility>

#include "base/address_text.h"
#include "base/data.h"
#include "base/log.h"
#include "base/thread.h"
#include "watch/host_header.h"

namespace penstock::watch {
namespace {

constexpr unsigned kThreads = 2;
constexpr unsigned kConnections = 32;  // of all threads; see kOtherDescriptors
constexpr unsigned kOfOneAddress = 8;
constexpr unsigned kIdleSeconds = 10;  // a connection without progress is closed
constexpr int kBacklog = 64;

// Returns a socket that listens there. Replaces `address` by the socket's own, if its port was 0.
SetupResult<FileDescriptor> Listen(SocketAddress& address) {
  const auto failed = [&](int error) {
    std::string why = fmt::format("--metrics: cannot listen on {}: {}", fmt::streamed(address), DescribeErrno(error));
    if (error == EADDRINUSE) why += "; is another server running there?";
    return std::unexpected(SetupError{std::move(why), error});
  };
  FileDescriptor socket(::socket(address.protocol().family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return failed(errno);
  const int on = 1;
  ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (::bind(socket.get(), address.data(), static_cast<socklen_t>(address.size())) != 0 ||
      ::listen(socket.get(), kBacklog) != 0) {
    return failed(errno);
  }
  auto size = static_cast<socklen_t>(address.capacity());
  if (::getsockname(socket.get(), address.data(), &size) != 0) return failed(errno);
  return socket;
}

MHD_Result Send(MHD_Connection* connection, const Response& response, const char* allow = nullptr) {
  MHD_Response* const answer =
      MHD_create_response_from_buffer(response.body.size(), const_cast<char*>(response.body.data()),  // copied
                                      MHD_RESPMEM_MUST_COPY);
  if (!answer) return MHD_NO;
  MHD_add_response_header(answer, MHD_HTTP_HEADER_CONTENT_TYPE, response.type.c_str());
  MHD_add_response_header(answer, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
  MHD_add_response_header(answer, MHD_HTTP_HEADER_CONNECTION, "close");
  MHD_add_response_header(answer, "X-Content-Type-Options", "nosniff");
  MHD_add_response_header(answer, "Referrer-Policy", "no-referrer");
  MHD_add_response_header(answer, "Content-Security-Policy",
                          "default-src 'self'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:; "
                          "frame-ancestors 'none'");
  if (allow) MHD_add_response_header(answer, MHD_HTTP_HEADER_ALLOW, allow);
  const MHD_Result queued = MHD_queue_response(connection, static_cast<unsigned>(response.status), answer);
  MHD_destroy_response(answer);
  return queued;
}

// Leaves the path as the client has sent it: no page has a name with "%". Decoded, "%00" would end the path.
size_t KeepPath(void* /*unused*/, MHD_Connection* /*unused*/, char* path) { return std::strlen(path); }

int SocketOf(MHD_Connection* connection) {
  const MHD_ConnectionInfo* const info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
  return info ? info->connect_fd : -1;
}

void Log(void* logger, const char* format, va_list arguments) {
  const log::ThreadLoggerScope scope(*static_cast<const std::shared_ptr<log::Logger>*>(logger));
  char line[256];
  std::vsnprintf(line, sizeof line, format, arguments);
  log::debug("metrics: {}", line);
}

}  // namespace

struct HttpServer::Callbacks {
  static MHD_Result Handle(void* server, MHD_Connection* connection, const char* path, const char* verb,
                           const char* /*version*/, const char* /*upload*/, size_t* upload_size, void** seen) {
    auto& self = *static_cast<HttpServer*>(server);
    const log::ThreadLoggerScope scope(self.logger_);
    // The library calls once for the head, and again for each part of a body, which is not read.
    if (!*seen) {
      *seen = connection;
      self.ages_.HasHead(SocketOf(connection));
      return MHD_YES;
    }
    if (*upload_size > 0) {
      *upload_size = 0;
      return MHD_YES;
    }
    const char* const host = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_HOST);
    if (self.checks_host_ && host && !NamesThisHost(host, self.own_name_)) {
      return Send(connection,
                  {.status = 421, .body = "this is not a name of this host: ask for an address or localhost\n"});
    }
    const std::string_view method = verb;
    if (method != MHD_HTTP_METHOD_GET && method != MHD_HTTP_METHOD_HEAD) {
      return Send(connection, {.status = MHD_HTTP_METHOD_NOT_ALLOWED, .body = "only GET\n"}, "GET, HEAD");
    }
    const auto page = self.pages_.find(std::string_view(path));
    if (page == self.pages_.end()) return Send(connection, {.status = MHD_HTTP_NOT_FOUND, .body = "no such page\n"});
    return Send(connection, page->second());
  }

  // The library calls this before it closes the socket.
  static void Note(void* server, MHD_Connection* connection, void** /*unused*/, MHD_ConnectionNotificationCode code) {
    // The library starts the threads, and names them after itself.
    thread_local const bool named = (NameThread("penstock-http"), true);
    (void)named;
    ConnectionAges& ages = static_cast<HttpServer*>(server)->ages_;
    const int socket = SocketOf(connection);
    code == MHD_CONNECTION_NOTIFY_STARTED ? ages.Begin(socket) : ages.Forget(socket);
  }
};

HttpServer::HttpServer(Pages pages, ConnectionAges::Limits limits) : pages_(std::move(pages)), ages_(limits) {
  char name[256] = "";
  ::gethostname(name, sizeof name - 1);
  own_name_ = name;
}

HttpServer::~HttpServer() {
  if (daemon_) MHD_stop_daemon(daemon_);
}

SetupResult<std::unique_ptr<HttpServer>> HttpServer::Open(const SocketAddress& address, Pages pages,
                                                          ConnectionAges::Limits limits) {
  SocketAddress local = address;
  PENSTOCK_TRY(FileDescriptor socket, Listen(local));
  return Adopt(std::move(socket), std::move(pages), limits);
}

SetupResult<std::unique_ptr<HttpServer>> HttpServer::Adopt(FileDescriptor socket, Pages pages,
                                                           ConnectionAges::Limits limits) {
  std::unique_ptr<HttpServer> server(new HttpServer(std::move(pages), limits));
  auto size = static_cast<socklen_t>(server->local_.capacity());
  if (::getsockname(socket.get(), server->local_.data(), &size) != 0) {
    return std::unexpected(SetupError{fmt::format("--metrics: not a socket: {}", DescribeErrno(errno))});
  }
  server->local_.resize(size);
  server->checks_host_ = server->local_.address().is_loopback();
  const int duplicate = ::fcntl(socket.get(), F_DUPFD_CLOEXEC, 0);  // the daemon closes it
  const WithoutSignals without_signals;                             // for the library's threads
  server->daemon_ = MHD_start_daemon(
      MHD_USE_EPOLL_INTERNAL_THREAD | MHD_USE_ERROR_LOG, 0, nullptr, nullptr, &Callbacks::Handle, server.get(),
      MHD_OPTION_EXTERNAL_LOGGER, &Log, &server->logger_, MHD_OPTION_LISTEN_SOCKET, duplicate,
      MHD_OPTION_THREAD_POOL_SIZE, kThreads, MHD_OPTION_CONNECTION_LIMIT, kConnections,
      MHD_OPTION_PER_IP_CONNECTION_LIMIT, kOfOneAddress, MHD_OPTION_NOTIFY_CONNECTION, &Callbacks::Note, server.get(),
      MHD_OPTION_UNESCAPE_CALLBACK, &KeepPath, nullptr, MHD_OPTION_CONNECTION_TIMEOUT, kIdleSeconds, MHD_OPTION_END);
  if (duplicate < 0 || !server->daemon_) {
    return std::unexpected(SetupError{fmt::format("--metrics: cannot serve on {}", fmt::streamed(server->local_))});
  }
  return server;
}

SetupResult<SocketAddress> ParseEndpoint(std::string_view text) {
  const bool is_port = text.find(':') == std::string_view::npos;
  const auto address = ParseSocketAddress(is_port ? fmt::format("127.0.0.1:{}", text) : std::string(text));
  if (address) return *address;
  return std::unexpected(
      SetupError{fmt::format("\"{}\" is not [ADDRESS:]PORT, such as 9469, 10.0.0.1:9469 or [::1]:9469", text)});
}

}  // namespace penstock::watch
