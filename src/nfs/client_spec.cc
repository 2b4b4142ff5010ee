#include "nfs/client_spec.h"

#include <fmt/core.h>
#include <fnmatch.h>

#include <algorithm>
#include <cctype>

#include "nfs/host_names.h"

namespace penstock::nfs {
namespace {

std::unexpected<SetupError> NoClient(std::string_view reason) {
  return std::unexpected(SetupError{std::string(reason)});
}

bool IsNameCharacter(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '.' || c == '_'; }

}  // namespace

SetupResult<ClientSpec> ClientSpec::Parse(std::string_view text) {
  ClientSpec spec;
  if (text == "*") return spec;
  if (text.empty()) return NoClient("the name of a client is missing");
  if (text.starts_with('@')) {
    if (text.size() == 1) return NoClient("the name of a netgroup is missing after @");
    spec.kind_ = Kind::kNetgroup;
    spec.name_ = text.substr(1);
    return spec;
  }
  if (text.starts_with('[') && text.ends_with(']') && text.find(':') != std::string_view::npos) {
    return NoClient("an IPv6 address has no brackets here");
  }
  if (const auto network = Network::Parse(text)) return ClientSpec(*network);
  if (text.find('/') != std::string_view::npos) {
    return NoClient("not a network such as 10.0.0.0/8, 10.0.0.0/255.0.0.0 or fd00::/8");
  }
  spec.name_ = text;
  std::ranges::transform(spec.name_, spec.name_.begin(), [](unsigned char c) { return std::tolower(c); });
  if (text.find_first_of("*?[") != std::string_view::npos) {
    spec.kind_ = Kind::kPattern;
    return spec;
  }
  if (!std::ranges::all_of(text, IsNameCharacter)) {
    return NoClient("neither the name of a host, nor an address, a network, a pattern or a @netgroup");
  }
  spec.kind_ = Kind::kHost;
  return spec;
}

bool ClientSpec::Has(const IpAddress& address, const HostFacts* facts) const {
  if (network_) return network_->Contains(address);
  if (kind_ == Kind::kEveryone) return true;
  if (!facts) return false;
  switch (kind_) {
    case Kind::kHost:
      return facts->hosts.contains(name_);
    case Kind::kPattern:
      return std::ranges::any_of(facts->names, [this](const std::string& each) {
        return ::fnmatch(name_.c_str(), each.c_str(), FNM_NOESCAPE) == 0;
      });
    case Kind::kNetgroup:
      return facts->netgroups.contains(name_);
    default:
      return false;
  }
}

std::string ClientSpec::ToString() const {
  if (network_) {
    std::string text = network_->ToString();
    return network_->IsHost() ? text.substr(0, text.find('/')) : text;
  }
  switch (kind_) {
    case Kind::kEveryone:
      return "*";
    case Kind::kNetgroup:
      return "@" + name_;
    default:
      return name_;
  }
}

}  // namespace penstock::nfs
