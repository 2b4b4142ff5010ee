#include "client/transport_security.h"

#include <algorithm>
#include <array>

namespace penstock::client {
namespace {

constexpr std::array<std::pair<TransportSecurity, std::string_view>, 4> kNames = {
    {{TransportSecurity::kNone, "none"},
     {TransportSecurity::kOpportunistic, "opportunistic"},
     {TransportSecurity::kTls, "tls"},
     {TransportSecurity::kMutualTls, "mtls"}}};

}  // namespace

std::optional<TransportSecurity> ParseTransportSecurity(std::string_view text) {
  for (const auto& [security, name] : kNames) {
    if (name == text) return security;
  }
  return std::nullopt;
}

std::string_view NameOf(TransportSecurity security) {
  return std::ranges::find(kNames, security, &std::pair<TransportSecurity, std::string_view>::first)->second;
}

SetupResult<std::shared_ptr<const rpc::tls::Context>> TlsClient::Context() {
  if (!context_) {
    PENSTOCK_TRY(context_, rpc::tls::Context::ForClient(files_));
  }
  return context_;
}

}  // namespace penstock::client
