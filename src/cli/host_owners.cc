#include "cli/host_owners.h"

#include <fmt/core.h>

#include <utility>

#include "base/result.h"
#include "idmap/database.h"
#include "idmap/domain.h"
#include "idmap/owner_text.h"

namespace penstock::cli {

void AddDomainOption(CLI::App& command, OwnerOptions& options) {
  command.add_option("--nfs4-domain", options.nfs4_domain,
                     "Users of this domain are those of this host. The default is the Domain of /etc/idmapd.conf, or\n"
                     "else the DNS domain of this host, or else localdomain. none: no name is that of a user of\n"
                     "this host");
}

std::optional<int> PrintWrongDomain(OwnerOptions& options) {
  auto domain = ParseDomain(options.nfs4_domain);
  if (!domain) return PrintUsageError(domain.error().message);
  options.nfs4_domain = *std::move(domain);
  return std::nullopt;
}

HostOwners::HostOwners(ClientRuntime& runtime, OwnerOptions options)
    : runtime_(runtime),
      options_(std::move(options)),
      lookups_(&idmap::AskHost, runtime.loop(), idmap::Lookups::OnThreads()) {
  // An empty domain: no name is that of a user of this host.
  owners_.emplace(options_.nfs4_domain.value_or(""), lookups_, &runtime_.loop());
  has_domain_ = options_.nfs4_domain.has_value();
}

Task<void> HostOwners::FindDomain() {
  has_domain_ = true;
  std::string domain = co_await Offload(runtime_.loop(), runtime_.workers(), [] { return idmap::FindDomain().name; });
  owners_.emplace(std::move(domain), lookups_, &runtime_.loop());
}

Task<void> HostOwners::Localize(client::Attributes& attributes) {
  if (!has_domain_ && (attributes.owner.contains('@') || attributes.group.contains('@'))) co_await FindDomain();
  using enum idmap::Kind;
  std::string& owner = attributes.owner;
  std::string& group = attributes.group;
  Task<std::string> local = options_.numbers ? owners_->NumberOf(kUser, owner) : owners_->NameOf(kUser, owner);
  owner = co_await std::move(local);
  local = options_.numbers ? owners_->NumberOf(kGroup, group) : owners_->NameOf(kGroup, group);
  group = co_await std::move(local);
}

Task<client::Result<std::string>> HostOwners::NumberOf(idmap::Kind kind, std::string name) {
  if (name.contains('@') || idmap::NumberIn(name)) co_return name;
  const std::string_view what = kind == idmap::Kind::kUser ? "user" : "group";
  idmap::Caller caller{.loop = &runtime_.loop()};
  const idmap::Query query{kind, name};
  const idmap::Answer answer = co_await lookups_.Find(query, caller);
  if (!answer) {
    const int number = answer.error().error;
    const std::string why = number == 0 ? "the database of this host does not answer" : DescribeErrno(number);
    co_return std::unexpected(client::Error{fmt::format("{} {}: {}", what, name, why), std::nullopt, number});
  }
  if (!*answer) {
    co_return std::unexpected(
        client::Error{fmt::format("{}: this host has no such {}", name, what), std::nullopt, EINVAL});
  }
  co_return std::to_string((*answer)->id);
}

}  // namespace penstock::cli
