#include "cli/host_argument.h"

#include <fmt/core.h>

#include <algorithm>

#include "cli/client_runtime.h"

namespace penstock::cli {

SetupResult<client::Url> ParseHost(const std::string& text, const AccessOptions& options) {
  if (client::Url::LooksLikeOne(text)) return ParseUrl(text, options);
  const bool is_host = !text.empty() && text.find_first_of("/?") == std::string::npos;
  if (!is_host) return std::unexpected(SetupError{fmt::format("{}: neither a host nor an nfs:// URL", text)});
  const bool is_bare_v6 = !text.starts_with('[') && std::ranges::count(text, ':') > 1;
  return ParseUrl(fmt::format("nfs://{}{}{}/", is_bare_v6 ? "[" : "", text, is_bare_v6 ? "]" : ""), options);
}

}  // namespace penstock::cli
