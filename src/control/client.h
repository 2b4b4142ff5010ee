// The other end of a control socket (control/server.h).
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "base/data.h"
#include "base/result.h"

namespace penstock::control {

using Json = nlohmann::json;

// Blocks. One thread at a time uses it.
class Client {
 public:
  // The error says what the operator can do: the server does not run, or this user may not ask it.
  static SetupResult<Client> Connect(const std::filesystem::path& path);

  // Sends a command and waits for its result. The error is that of the server, or tells that the server has ended.
  SetupResult<Json> Call(const std::string& command, const Json& arguments);

 private:
  explicit Client(FileDescriptor socket) : socket_(std::move(socket)) {}

  FileDescriptor socket_;
  std::string received_;  // octets after the last reply
};

}  // namespace penstock::control
