#include "rpc/gss/gss_api.h"

#include <fmt/core.h>

namespace penstock::rpc::gss {
namespace {

// A status code may have several messages.
std::string TextOf(OM_uint32 status, int kind, gss_OID mechanism) {
  std::string text;
  OM_uint32 more = 0;
  do {
    OM_uint32 minor;
    ApiBuffer line;
    if (GSS_ERROR(gss_display_status(&minor, status, kind, mechanism, &more, line.out()))) break;
    if (!text.empty()) text += "; ";
    text += line.text();
  } while (more != 0);
  // The library describes only the minor statuses that it has returned in this process, not those of a peer.
  return text.empty() ? fmt::format("status {:#x}", status) : text;
}

}  // namespace

Failure FailureOf(OM_uint32 major, OM_uint32 minor, gss_OID mechanism) {
  std::string text = TextOf(major, GSS_C_GSS_CODE, mechanism);
  if (minor != 0) text += fmt::format(" ({})", TextOf(minor, GSS_C_MECH_CODE, mechanism));
  return {.major = major, .minor = minor, .text = std::move(text)};
}

Failure FailureOf(OM_uint32 minor, gss_OID mechanism) {
  return {.major = GSS_S_FAILURE, .minor = minor, .text = TextOf(minor, GSS_C_MECH_CODE, mechanism)};
}

}  // namespace penstock::rpc::gss
