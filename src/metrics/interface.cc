#include "metrics/interface.h"

#include <fmt/core.h>

#include <array>

namespace penstock::metrics {
namespace {

// RFC 5531 §9: accept_stat and auth_stat
constexpr std::array<std::string_view, 6> kAcceptNames = {"OK",           "PROG_UNAVAIL", "PROG_MISMATCH",
                                                          "PROC_UNAVAIL", "GARBAGE_ARGS", "SYSTEM_ERR"};
constexpr std::array<std::string_view, 15> kAuthNames = {
    "AUTH_OK",       "AUTH_BADCRED",     "AUTH_REJECTEDCRED", "AUTH_BADVERF",           "AUTH_REJECTEDVERF",
    "AUTH_TOOWEAK",  "AUTH_INVALIDRESP", "AUTH_FAILED",       "AUTH_KERB_GENERIC",      "AUTH_TIMEEXPIRE",
    "AUTH_TKT_FILE", "AUTH_DECODE",      "AUTH_NET_ADDR",     "RPCSEC_GSS_CREDPROBLEM", "RPCSEC_GSS_CTXPROBLEM"};

}  // namespace

std::string StatusName(const Interface& interface, uint32_t status) {
  if (status == kDropped) return "NO_REPLY";
  const uint32_t kind = status & 0xff00'0000;
  const uint32_t rest = status & 0x00ff'ffff;
  if (kind == kAcceptStatus && rest < kAcceptNames.size()) return std::string(kAcceptNames[rest]);
  if (kind == kAuthStatus && rest < kAuthNames.size()) return std::string(kAuthNames[rest]);
  if (status == 0 && interface.zero_is_ok) return "OK";
  const std::string_view name = interface.status_name(status);
  return name.empty() ? fmt::format("{}", status) : std::string(name);
}

}  // namespace penstock::metrics
