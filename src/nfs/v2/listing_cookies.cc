#include "nfs/v2/listing_cookies.h"

namespace penstock::nfs::v2 {
namespace {

constexpr uint64_t kLeastLarge = uint64_t{1} << 31;
constexpr int kLowBits = 32;  // of a position, below the 31 bits that the client gets

}  // namespace

std::optional<fs::Cookie> ListingCookies::Start(uint32_t number) {
  if (number == 0) {
    current_ = 0;
    return fs::Cookie();
  }
  if (const auto known = table_.CookieOf(host_, directory_, number)) return known;
  if (number < kPositionBit) {
    is_plain_ = true;
    return fs::Cookie(number);
  }
  if (!positional_) return std::nullopt;
  return fs::Cookie(uint64_t{number & ~kPositionBit} << kLowBits);
}

std::optional<uint32_t> ListingCookies::Next(fs::Cookie cookie) {
  const uint64_t next = cookie.value();
  if (next < kLeastLarge) return static_cast<uint32_t>(next);
  if (!positional_) return table_.NumberOf(host_, directory_, cookie, CookieTable::Range::kUpper);
  // A directory of ext4 has either small cookies or large ones. So the number was one that the table has forgotten, and
  // the listing began at the beginning.
  if (is_plain_) return std::nullopt;
  const std::optional<uint64_t> own = current_;
  current_ = next;
  const bool is_position = next >> 63 == 0 && next >> kLowBits != 0;
  if (is_position && own && *own >> kLowBits < next >> kLowBits) {
    return static_cast<uint32_t>(next >> kLowBits) | kPositionBit;
  }
  return table_.NumberOf(host_, directory_, cookie, CookieTable::Range::kLower);
}

}  // namespace penstock::nfs::v2
