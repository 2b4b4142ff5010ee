// What mounts of all versions need while they are made.
#pragma once

#include <optional>
#include <string_view>

#include "client/error.h"
#include "client/reconnecting_channel.h"
#include "client/url.h"
#include "rpc/client.h"

namespace penstock::client {

rpc::Xid RandomXid();
// AUTH_SYS, as the URL has it, or the process.
rpc::ClientCredential CredentialOf(const Url& url);
std::string HostName();
RetryPolicy Limited(RetryPolicy policy, const Url& url);

Error ErrorOf(const rpc::Error& error, std::string_view what);

// What is left of `path` below `prefix`, without a leading '/'; nothing where it does not lie below.
std::optional<std::string_view> Below(std::string_view path, std::string_view prefix);

}  // namespace penstock::client
