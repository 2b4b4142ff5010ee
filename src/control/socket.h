// Unix sockets that carry lines.
#pragma once

#include <sys/un.h>

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "base/data.h"
#include "base/result.h"

namespace penstock::control {

// The address of a path; fails if the path is longer than such an address can be.
SetupResult<sockaddr_un> AddressOf(const std::filesystem::path& path);
// A blocking stream socket.
FileDescriptor MakeSocket();

// Sends all octets. Returns false if the connection is lost or its time limit is over.
bool SendAll(int socket, std::string_view octets);
// Returns the next line without its end, and keeps what follows in `received`. Nothing if the connection has ended, or
// if the line is longer than `longest`.
std::optional<std::string> ReceiveLine(int socket, std::string& received, size_t longest);

}  // namespace penstock::control
