#include "control/client.h"

#include <fmt/core.h>
#include <sys/socket.h>

#include <cerrno>
#include <limits>
#include <nlohmann/json.hpp>

#include "control/socket.h"

namespace penstock::control {

SetupResult<Client> Client::Connect(const std::filesystem::path& path) {
  PENSTOCK_TRY(const sockaddr_un address, AddressOf(path));
  FileDescriptor socket = MakeSocket();
  if (socket && ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) {
    return Client(std::move(socket));
  }
  const int error = errno;
  std::string_view advice;
  if (error == ENOENT || error == ECONNREFUSED) {
    advice = ": no server runs with this control socket (--control names another one)";
  } else if (error == EACCES) {
    advice = ": only the server's user and root may use it, and the group of serve --control-group";
  }
  return std::unexpected(
      SetupError{fmt::format("cannot connect to {}: {}{}", path.native(), DescribeErrno(error), advice)});
}

SetupResult<Json> Client::Call(const std::string& command, const Json& arguments) {
  const auto lost = [] { return std::unexpected(SetupError{"the server has closed the connection"}); };
  const Json request{{"command", command}, {"arguments", arguments}};
  // The server may have refused the connection: it then says why, and takes no request.
  SendAll(socket_.get(), request.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n");
  const auto line = ReceiveLine(socket_.get(), received_, std::numeric_limits<size_t>::max());
  if (!line) return lost();
  Json reply = Json::parse(*line, nullptr, false);
  if (!reply.is_object()) return std::unexpected(SetupError{"the server's reply is not a JSON object"});
  if (const auto error = reply.find("error"); error != reply.end()) {
    return std::unexpected(SetupError{error->is_string() ? error->get<std::string>() : error->dump()});
  }
  return std::move(reply["result"]);
}

}  // namespace penstock::control
