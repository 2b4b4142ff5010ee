// Functions that mounts of all versions need while they are opened.
#pragma once

#include <optional>
#include <string_view>

#include "base/cancellation.h"
#include "base/result.h"
#include "client/error.h"
#include "client/reconnecting_channel.h"
#include "client/url.h"
#include "rpc/client.h"

namespace penstock::client {

// Makes an AUTH_SYS credential with the identity of the URL, or of the process if the URL has none.
rpc::ClientCredential SystemCredentialOf(const Url& url);
std::string HostName();
// Limits `policy` to the timeout of the URL.
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

}  // namespace penstock::client
