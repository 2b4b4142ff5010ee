#include "client/set_up.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <vector>

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

std::vector<uint32_t> SupplementaryGroups() {
  std::vector<gid_t> groups(static_cast<size_t>(std::max(::getgroups(0, nullptr), 0)));
  const int count = ::getgroups(static_cast<int>(groups.size()), groups.data());
  if (count < 0) return {};  // the groups have changed meanwhile: the server decides without them
  groups.resize(static_cast<size_t>(count));
  const gid_t own = ::getegid();
  std::erase(groups, own);
  return {groups.begin(), groups.end()};
}

rpc::ClientCredential SystemCredentialOf(const Url& url) {
  const bool is_process = !url.uid && !url.gid;
  std::vector<uint32_t> groups = is_process ? SupplementaryGroups() : std::vector<uint32_t>();
  return rpc::ClientCredential({.machine = HostName(),
                                .uid = url.uid.value_or(::geteuid()),
                                .gid = url.gid.value_or(::getegid()),
                                .groups = url.groups.value_or(std::move(groups))});
}

Error ReadOnly(std::string_view what) {
  return {fmt::format("{}: the option ro forbids changes", what), Status::kReadOnly, EROFS};
}

RetryPolicy Limited(RetryPolicy policy, const Url& url) {
  policy.server = url.host;
  policy.give_up_after = std::min(policy.give_up_after, url.recovery.CallLimit());
  policy.reply_limit = url.recovery.ReplyLimit();
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

std::vector<std::string> ComponentsOf(std::string_view path) {
  std::vector<std::string> components;
  while (!path.empty()) {
    const std::string_view component = path.substr(0, path.find('/'));
    path.remove_prefix(std::min(path.size(), component.size() + 1));
    if (!component.empty()) components.emplace_back(component);
  }
  return components;
}

}  // namespace penstock::client
