#include "control/server.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <nlohmann/json.hpp>
#include <string_view>
#include <system_error>

#include "base/log.h"
#include "base/thread.h"
#include "control/socket.h"

namespace penstock::control {
namespace {

// How long a peer may leave a reply unread, or a connection idle.
constexpr timeval kSendLimit{.tv_sec = 30, .tv_usec = 0};
constexpr timeval kIdleLimit{.tv_sec = 600, .tv_usec = 0};

constexpr size_t kDeepest = 32;

SetupError CannotListen(const std::filesystem::path& path, std::string_view why) {
  return SetupError{fmt::format("cannot listen on the control socket {}: {}", path.native(), why)};
}

// Makes room for a socket at `path`: removes one that nobody serves.
SetupResult<void> MakeRoom(const std::filesystem::path& path, const sockaddr_un& address) {
  struct stat there{};
  if (::lstat(path.c_str(), &there) != 0) return {};
  if (!S_ISSOCK(there.st_mode)) return std::unexpected(CannotListen(path, "another file has this name"));
  const FileDescriptor probe = MakeSocket();
  if (probe && ::connect(probe.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) {
    return std::unexpected(CannotListen(path, "another server uses it"));
  }
  if (errno != ECONNREFUSED) return std::unexpected(CannotListen(path, DescribeErrno(errno)));
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) return std::unexpected(CannotListen(path, DescribeErrno(errno)));
  return {};
}

std::string Line(const Json& reply) { return reply.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n"; }

// How deep the values of a text in JSON are nested. The library that reads it recurses.
size_t DepthOf(std::string_view text) {
  size_t depth = 0, deepest = 0;
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char octet = text[i];
    if (quoted) {
      if (octet == '\\') ++i;
      quoted = octet != '"';
    } else if (octet == '"') {
      quoted = true;
    } else if (octet == '[' || octet == '{') {
      deepest = std::max(deepest, ++depth);
    } else if ((octet == ']' || octet == '}') && depth > 0) {
      --depth;
    }
  }
  return deepest;
}

// Executes a request; the result is the reply.
Json Answer(const std::string& line, const Handler& handler) {
  if (DepthOf(line) > kDeepest) return {{"error", fmt::format("a request may be nested {} deep at most", kDeepest)}};
  const Json request = Json::parse(line, nullptr, false);
  Json reply = Json::object();
  if (request.is_object() && request.contains("id")) reply["id"] = request["id"];
  const auto fail = [&](std::string why) {
    reply["error"] = std::move(why);
    return reply;
  };
  if (!request.is_object()) return fail("a request is a line with a JSON object");
  for (const auto& [key, value] : request.items()) {
    if (key != "id" && key != "command" && key != "arguments") return fail(fmt::format("unknown member \"{}\"", key));
  }
  const auto command = request.find("command");
  if (command == request.end() || !command->is_string()) return fail("the member \"command\" must be a text");
  const Json arguments = request.value("arguments", Json::object());
  if (!arguments.is_object()) return fail("the member \"arguments\" must be an object");
  auto result = handler(command->get<std::string>(), arguments);
  if (!result) return fail(std::move(result).error().message);
  reply["result"] = *std::move(result);
  return reply;
}

}  // namespace

SetupResult<std::unique_ptr<Server>> Server::Open(const std::filesystem::path& path, std::optional<gid_t> group) {
  PENSTOCK_TRY(const sockaddr_un address, AddressOf(path));
  PENSTOCK_CHECK(MakeRoom(path, address));
  const auto failed = [&] { return std::unexpected(CannotListen(path, DescribeErrno(errno))); };
  FileDescriptor socket = MakeSocket();
  // The rights of the socket that is about to be bound, so that nobody else can use it for a moment.
  if (!socket || ::fchmod(socket.get(), group ? 0660 : 0600) != 0 ||
      ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return failed();
  }
  const auto remove_and_fail = [&] {
    const auto error = failed();
    ::unlink(path.c_str());
    return error;
  };
  if (group && ::chown(path.c_str(), static_cast<uid_t>(-1), *group) != 0) return remove_and_fail();
  std::array<int, 2> ends{};
  if (::listen(socket.get(), SOMAXCONN) != 0 || ::pipe2(ends.data(), O_CLOEXEC) != 0) return remove_and_fail();
  return std::unique_ptr<Server>(new Server(path, std::move(socket), FileDescriptor(ends[0]), FileDescriptor(ends[1])));
}

Server::Server(std::filesystem::path path, FileDescriptor socket, FileDescriptor wake_read, FileDescriptor wake_write)
    : path_(std::move(path)),
      socket_(std::move(socket)),
      wake_read_(std::move(wake_read)),
      wake_write_(std::move(wake_write)) {
  struct stat made{};
  if (::lstat(path_.c_str(), &made) != 0) return;
  device_ = made.st_dev;
  inode_ = made.st_ino;
}

bool Server::HasPath() const {
  struct stat there{};
  return ::lstat(path_.c_str(), &there) == 0 && there.st_dev == device_ && there.st_ino == inode_;
}

Server::~Server() {
  StopAccepting();
  // No new connection comes, so the list stays as it is.
  for (Connection& each : connections_) each.thread.join();
}

void Server::StopAccepting() {
  if (stopped_.exchange(true)) return;
  if (HasPath()) ::unlink(path_.c_str());
  if (acceptor_.joinable()) {
    const char octet = 0;
    while (::write(wake_write_.get(), &octet, 1) < 0 && errno == EINTR) {
    }
    acceptor_.join();
  }
  const std::lock_guard lock(mutex_);
  for (Connection& each : connections_) ::shutdown(each.socket.get(), SHUT_RDWR);
}

void Server::Start(Handler handler) {
  handler_ = std::move(handler);
  acceptor_ = StartThread("penstock-ctl", [this] { AcceptAll(); });
}

void Server::AcceptAll() {
  for (;;) {
    std::array<pollfd, 2> waits = {{{.fd = socket_.get(), .events = POLLIN, .revents = 0},
                                    {.fd = wake_read_.get(), .events = POLLIN, .revents = 0}}};
    if (::poll(waits.data(), waits.size(), -1) < 0 && errno != EINTR) return;
    if (waits[1].revents != 0) return;
    if (waits[0].revents != 0) Accept();
  }
}

void Server::Accept() {
  FileDescriptor socket(::accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!socket) {
    // Without descriptors the connection stays in the queue: do not ask for it at once again.
    if (errno == EMFILE || errno == ENFILE || errno == ENOMEM) ::poll(nullptr, 0, 100);
    return;
  }
  ::setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &kSendLimit, sizeof kSendLimit);
  ::setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &kIdleLimit, sizeof kIdleLimit);
  JoinEnded();
  const std::lock_guard lock(mutex_);
  if (connections_.size() >= kMostConnections) {
    SendAll(socket.get(), Line({{"error", fmt::format("the control socket has {} connections already, which is all "
                                                      "that it takes",
                                                      kMostConnections)}}));
    return;
  }
  Connection& added = connections_.emplace_back(Connection{.socket = std::move(socket)});
  try {
    added.thread = StartThread("penstock-ctl", [this, &added] { Serve(added); });
  } catch (const std::system_error& error) {
    log::warn("the control socket cannot serve a connection: {}", error.what());
    connections_.pop_back();
  }
}

void Server::Serve(Connection& connection) {
  std::string received;
  while (const auto line = ReceiveLine(connection.socket.get(), received, kLongestRequest)) {
    if (stopped_) break;
    if (!SendAll(connection.socket.get(), Line(Answer(*line, handler_)))) break;
  }
  if (received.size() > kLongestRequest) {
    SendAll(connection.socket.get(),
            Line({{"error", fmt::format("a request may have {} octets at most", kLongestRequest)}}));
  }
  ::shutdown(connection.socket.get(), SHUT_RDWR);
  const std::lock_guard lock(mutex_);
  connection.ended = true;
}

void Server::JoinEnded() {
  std::list<Connection> ended;
  {
    const std::lock_guard lock(mutex_);
    for (auto each = connections_.begin(); each != connections_.end();) {
      const auto next = std::next(each);
      if (each->ended) ended.splice(ended.end(), connections_, each);
      each = next;
    }
  }
  for (Connection& each : ended) each.thread.join();
}

}  // namespace penstock::control
