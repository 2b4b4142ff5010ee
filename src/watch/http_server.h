// A small HTTP server for monitors and people, without authentication.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "base/address.h"
#include "base/data.h"
#include "base/log.h"
#include "base/result.h"
#include "watch/connection_ages.h"

struct MHD_Daemon;

namespace penstock::watch {

struct Response {
  int status = 200;
  std::string type = "text/plain; charset=utf-8";
  std::string body;
};

// Answers GET (and HEAD) for the paths that it is given, each by a function. Everything else is 404 or 405. It has a
// fixed number of threads of its own, and a limit on connections, in total and for one address. Peers that are slow
// hold a connection, but no thread, and only for a while (ConnectionAges). If the server listens on a loopback address,
// it answers only requests to names of this host (NamesThisHost).
class HttpServer {
 public:
  // Called on one of the server's threads, several at the same time.
  using Page = std::function<Response()>;
  using Pages = std::map<std::string, Page, std::less<>>;

  // Listens on the address. With port 0 the system chooses a port. The error is for the operator.
  static SetupResult<std::unique_ptr<HttpServer>> Open(const SocketAddress& address, Pages pages,
                                                       ConnectionAges::Limits limits = {});
  // Takes a socket that listens already, such as one that the service manager passes.
  static SetupResult<std::unique_ptr<HttpServer>> Adopt(FileDescriptor socket, Pages pages,
                                                        ConnectionAges::Limits limits = {});
  // Waits until no page is being made.
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  const SocketAddress& local() const { return local_; }

 private:
  HttpServer(Pages pages, ConnectionAges::Limits limits);
  struct Callbacks;

  const Pages pages_;
  // Of the thread that makes the server: the threads of the library log there.
  const std::shared_ptr<log::Logger> logger_ = log::ThreadLogger();
  ConnectionAges ages_;
  std::string own_name_;  // of this host
  bool checks_host_ = false;
  MHD_Daemon* daemon_ = nullptr;
  SocketAddress local_;
};

// Reads "[ADDRESS:]PORT", with an IPv6 address in brackets. Without an address it is 127.0.0.1.
SetupResult<SocketAddress> ParseEndpoint(std::string_view text);

}  // namespace penstock::watch
