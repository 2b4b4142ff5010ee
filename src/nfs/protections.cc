#include "nfs/protections.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <utility>

namespace penstock::nfs {
namespace {

using rpc::Protection;

constexpr std::array<std::pair<Protection, std::string_view>, 3> kNames = {
    {{Protection::kNone, "none"}, {Protection::kTls, "tls"}, {Protection::kMutualTls, "mtls"}}};

}  // namespace

SetupResult<Protections> Protections::Parse(std::string_view text) {
  Protections parsed(0);
  for (bool more = true; more;) {
    const size_t colon = text.find(':');
    const std::string_view name = text.substr(0, colon);
    const auto known = std::ranges::find(kNames, name, &std::pair<Protection, std::string_view>::second);
    if (known == kNames.end()) {
      return std::unexpected(SetupError{fmt::format("\"{}\" is unknown: choose of none, tls, mtls", name)});
    }
    if (parsed.admitted_ & BitOf(known->first))
      return std::unexpected(SetupError{fmt::format("\"{}\" is named twice", name)});
    parsed.named_ |= BitOf(known->first);
    parsed.admitted_ = parsed.named_;
    more = colon != std::string_view::npos;
    if (more) text.remove_prefix(colon + 1);
  }
  if (parsed.Admits(Protection::kTls)) parsed.admitted_ |= BitOf(Protection::kMutualTls);
  return parsed;
}

std::string Protections::ToString() const {
  std::string text;
  for (const auto& [protection, name] : kNames) {
    if ((named_ & BitOf(protection)) == 0) continue;
    if (!text.empty()) text += ':';
    text += name;
  }
  return text;
}

}  // namespace penstock::nfs
