// Reads the text of an owner as a peer sends it, and idmapd.conf. A number must have one form. A name must stay the
// same when it is sent back, and must be one that the C library can look up.
#include <string>
#include <string_view>

#include "idmap/domain.h"
#include "idmap/owner_text.h"
#include "input.h"

namespace {

using namespace penstock;  // NOLINT: a program of its own
using fuzz::Die;

constexpr std::string_view kDomain = "example.org";

void CheckNumber(std::string_view text) {
  const auto number = idmap::NumberIn(text);
  if (number && std::to_string(*number) != text) Die("a number has a second form");
}

void CheckName(std::string_view text) {
  const auto name = idmap::NameIn(text, kDomain);
  if (!name) return;
  if (name->empty() || std::string(*name).c_str() != *name) Die("a name differs for the C library");
  const auto again = idmap::OwnerText(*name, kDomain);
  if (!again) return;  // not UTF-8
  if (idmap::NameIn(*again, kDomain) != name) Die("a name changes when it is sent back");
}

void CheckDomain(std::string_view text) {
  const auto domain = idmap::DomainIn(text);
  if (!domain || !idmap::IsDomain(*domain)) return;
  if (idmap::NameIn("anna@" + *domain, *domain) != "anna") Die("a domain has no names");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  CheckNumber(text);
  CheckName(text);
  CheckDomain(text);
  return 0;
}
