// Functions that mounts of all versions need while they are opened.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/cancellation.h"
#include "base/result.h"
#include "client/error.h"
#include "client/reconnecting_channel.h"
#include "client/url.h"
#include "rpc/client.h"

namespace penstock::client {

// Returns the groups of the process besides its own group.
std::vector<uint32_t> SupplementaryGroups();
// Makes an AUTH_SYS credential with the identity of the URL. If the URL has none, the identity is that of the process,
// with its groups.
rpc::ClientCredential SystemCredentialOf(const Url& url);
std::string HostName();
// Returns the limit of the user, unless it is zero or larger than that of the client.
inline uint32_t LimitOr(uint32_t of_user, uint32_t of_client) {
  return of_user == 0 ? of_client : std::min(of_user, of_client);
}
// Makes the error of a call that would change files, with the option ro.
Error ReadOnly(std::string_view what);
// Limits `policy` to the time limits of the URL.
RetryPolicy Limited(RetryPolicy policy, const Url& url);

Error ErrorOf(const rpc::Error& error, std::string_view what);
// Returns the errno that describes the error.
int ErrnoOf(const rpc::Error& error);

// The reason for which a call fails after Mount::Abort().
inline constexpr std::string_view kClosing = "the mount is closing";
// Makes the error of such a call.
Error Closing(std::string_view what);
// Makes the error of a connection that is not made for the reason `why`.
Error NotConnected(SetupError why, const Cancellation& ending, std::string_view what);

// Returns the part of `path` below `prefix`, without a leading '/', or nothing if `path` is not below `prefix`.
std::optional<std::string_view> Below(std::string_view path, std::string_view prefix);
// Returns the names in a path, without empty ones.
std::vector<std::string> ComponentsOf(std::string_view path);

}  // namespace penstock::client
