#include "client/set_up.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace penstock::client {
namespace {

int ErrnoOf(rpc::CallError error) {
  switch (error) {
    case rpc::CallError::kDisconnected:
      return ECONNRESET;
    case rpc::CallError::kTimedOut:
      return ETIMEDOUT;
    case rpc::CallError::kCancelled:
      return ECANCELED;
    case rpc::CallError::kTooLarge:
      return EMSGSIZE;
    case rpc::CallError::kRefused:
      return ECONNREFUSED;
    case rpc::CallError::kMalformed:
    case rpc::CallError::kNotAuthentic:
      return EPROTO;
    case rpc::CallError::kUnreadable:
      return EIO;
    case rpc::CallError::kNoContext:
      return EACCES;
  }
  return EIO;
}

}  // namespace

int ErrnoOf(const rpc::Error& error) {
  using enum rpc::Error::Kind;
  switch (error.kind) {
    case kTransport:
      return ErrnoOf(error.transport);
    case kProgramUnavailable:
    case kProgramMismatch:
    case kRpcMismatch:
      return EPROTONOSUPPORT;
    case kProcedureUnavailable:
      return EOPNOTSUPP;
    case kGarbageArguments:
    case kMalformedReply:
      return EPROTO;
    case kSystemError:
      return EIO;
    case kAuthentication:
      return EACCES;
  }
  return EIO;
}

std::string HostName() {
  char name[256] = "localhost";
  ::gethostname(name, sizeof name - 1);
  return name;
}

rpc::ClientCredential SystemCredentialOf(const Url& url) {
  return rpc::ClientCredential({.machine = HostName(),
                                .uid = url.uid.value_or(::geteuid()),
                                .gid = url.gid.value_or(::getegid()),
                                .groups = {}});
}

RetryPolicy Limited(RetryPolicy policy, const Url& url) {
  policy.give_up_after = std::min<Duration>(policy.give_up_after, std::chrono::seconds(url.timeout));
  return policy;
}

Error ErrorOf(const rpc::Error& error, std::string_view what) {
  // Nothing else cancels calls.
  if (error.kind == rpc::Error::Kind::kTransport && error.transport == rpc::CallError::kCancelled) return Closing(what);
  return {fmt::format("{}: {}", what, rpc::Describe(error)), std::nullopt, ErrnoOf(error)};
}

Error Closing(std::string_view what) { return {fmt::format("{}: {}", what, kClosing), std::nullopt, ECANCELED}; }

Error NotConnected(SetupError why, const Cancellation& ending, std::string_view what) {
  if (ending.cancelled()) return Closing(what);
  return {std::move(why.message), std::nullopt, why.number};
}

std::optional<std::string_view> Below(std::string_view path, std::string_view prefix) {
  while (prefix.ends_with('/')) prefix.remove_suffix(1);
  if (!path.starts_with(prefix)) return std::nullopt;
  path.remove_prefix(prefix.size());
  if (!path.empty() && !path.starts_with('/')) return std::nullopt;
  path.remove_prefix(std::min(path.find_first_not_of('/'), path.size()));
  return path;
}

}  // namespace penstock::client
