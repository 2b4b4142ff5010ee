// The control socket of a server: a Unix socket over which an operator's program asks for the server's state and steers
// it. Each request is a line with a JSON object, and so is each reply:
//
//   {"command": "evict", "arguments": {"client": "0000000100000003"}, "id": 7}
//   {"id": 7, "result": {...}}      or      {"error": "there is no such client", "id": 7}
//
// `arguments` and `id` may be missing. A connection carries any number of requests, one after another. docs/control.md
// describes the commands.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <condition_variable>
#include <filesystem>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <thread>

#include "base/data.h"
#include "base/result.h"

namespace penstock::control {

using Json = nlohmann::json;

// Executes a command and returns its result, or the error for the operator. May block. Several threads call it at the
// same time, one for each connection.
using Handler = std::function<SetupResult<Json>(const std::string& command, const Json& arguments)>;

class Server {
 public:
  // The longest request, in octets, and the most connections. A connection beyond them gets an error and ends.
  static constexpr size_t kLongestRequest = 64 << 10;
  static constexpr size_t kMostConnections = 16;

  // Listens on `path`, which only this user, and with `group` the members of this group, may then use. Replaces a
  // socket that nobody serves any more. Fails if another process serves it, if another file has this name, or if the
  // path is too long for a socket.
  static SetupResult<std::unique_ptr<Server>> Open(const std::filesystem::path& path, std::optional<gid_t> group);
  // Calls StopAccepting(), and waits until no command runs.
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Answers from now on, with threads of its own. Called once.
  void Start(Handler handler);
  // Removes the socket, and closes all connections. From now on no command begins. Does not wait for the commands that
  // run; their replies are lost. One thread at a time.
  void StopAccepting();
  const std::filesystem::path& path() const { return path_; }

 private:
  struct Connection {
    FileDescriptor socket;
    std::thread thread{};
    bool ended = false;
  };

  Server(std::filesystem::path path, FileDescriptor socket, FileDescriptor wake_read, FileDescriptor wake_write);
  void AcceptAll();
  void Accept();
  void Serve(Connection& connection);
  void JoinEnded();

  // Whether the socket at path() is still that of this server.
  bool HasPath() const;

  const std::filesystem::path path_;
  dev_t device_ = 0;  // of the socket's name
  ino_t inode_ = 0;
  const FileDescriptor socket_;
  const FileDescriptor wake_read_, wake_write_;  // a pipe that ends AcceptAll()
  Handler handler_;
  std::atomic<bool> stopped_ = false;
  std::mutex mutex_;
  std::list<Connection> connections_;  // guarded by mutex_; a thread changes only its own
  std::thread acceptor_;
};

}  // namespace penstock::control
