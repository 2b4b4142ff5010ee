#include "copying/temporary_name.h"

#include <fmt/core.h>

#include <charconv>
#include <span>

#include "base/random.h"
#include "base/siphash.h"
#include "base/utf8.h"

namespace penstock::copying {
namespace {

constexpr std::string_view kMark = ".penstock-";
constexpr size_t kSourceDigits = 8, kVersionDigits = 16, kRandomDigits = 8, kMostOffsetDigits = 16;
constexpr size_t kLongestName = 255;
constexpr size_t kLongestTarget =
    kLongestName - 1 - kMark.size() - kSourceDigits - kVersionDigits - 1 - kRandomDigits - 1 - kMostOffsetDigits;

uint64_t HashOf(std::string_view text) { return SipHash(SipKey{}, AsBytes(text)); }

// Cuts between two characters, if the name is UTF-8.
std::string_view Cut(std::string_view name) {
  if (name.size() <= kLongestTarget) return name;
  size_t size = kLongestTarget;
  if (IsUtf8(name)) {
    while (size > 0 && (static_cast<unsigned char>(name[size]) & 0xc0) == 0x80) --size;
  }
  return name.substr(0, size);
}

// Takes `digits` lower-case hexadecimal digits from the beginning of `text`.
template <class Number>
bool Take(std::string_view& text, size_t digits, Number& number) {
  if (text.size() < digits || text.substr(0, digits).find_first_not_of("0123456789abcdef") != text.npos) return false;
  std::from_chars(text.data(), text.data() + digits, number, 16);
  text.remove_prefix(digits);
  return true;
}

bool TakeDash(std::string_view& text) {
  if (!text.starts_with('-')) return false;
  text.remove_prefix(1);
  return true;
}

}  // namespace

std::string TemporaryName::Text() const {
  std::string text = fmt::format(".{}{}{:08x}{:016x}-{:08x}", target, kMark, source, version, random);
  if (complete > 0) text += fmt::format("-{:x}", complete);
  return text;
}

std::optional<TemporaryName> TemporaryName::Parse(std::string_view name) {
  const size_t mark = name.rfind(kMark);
  if (!name.starts_with('.') || mark == name.npos || mark < 2) return std::nullopt;
  TemporaryName parsed;
  parsed.target = name.substr(1, mark - 1);
  std::string_view rest = name.substr(mark + kMark.size());
  if (!Take(rest, kSourceDigits, parsed.source) || !Take(rest, kVersionDigits, parsed.version) || !TakeDash(rest) ||
      !Take(rest, kRandomDigits, parsed.random)) {
    return std::nullopt;
  }
  if (rest.empty()) return parsed;
  if (!TakeDash(rest) || rest.empty() || rest.size() > kMostOffsetDigits || rest.starts_with('0')) return std::nullopt;
  if (!Take(rest, rest.size(), parsed.complete)) return std::nullopt;
  return parsed;
}

TemporaryName TemporaryName::For(std::string_view target, std::string_view source,
                                 const client::Attributes& attributes) {
  TemporaryName made;
  made.target = Cut(target);
  // The whole name of the target is part of the hash, since it may be cut.
  made.source = static_cast<uint32_t>(HashOf(fmt::format("{}\n{}", source, target)));
  made.version =
      HashOf(fmt::format("{} {}.{}", attributes.size, attributes.modified.seconds, attributes.modified.nanoseconds));
  made.Renew();
  return made;
}

void TemporaryName::Renew() { FillRandomly(std::as_writable_bytes(std::span(&random, 1))); }

}  // namespace penstock::copying
