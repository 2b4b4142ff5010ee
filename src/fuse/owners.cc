#include "fuse/owners.h"

#include "idmap/local_owners.h"
#include "idmap/owner_text.h"

namespace penstock::fuse {
namespace {

// The kernel's number for a user that it cannot name.
constexpr uint32_t kNobody = 65534;

}  // namespace

Task<uint32_t> Owners::NumberOf(idmap::Kind kind, std::string text) {
  if (const auto number = idmap::NumberIn(text)) co_return *number;
  idmap::LocalOwners owners(domain_, lookups_, &loop_);
  const std::string local = co_await owners.NumberOf(kind, text);
  co_return idmap::NumberIn(local).value_or(kNobody);
}

}  // namespace penstock::fuse
