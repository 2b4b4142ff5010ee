#include "cli/xattr_text.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdint>

#include "base/utf8.h"

namespace penstock::cli {
namespace {

constexpr std::string_view kBase64 = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

bool IsControlCharacter(char character) {
  const auto octet = static_cast<unsigned char>(character);
  return octet < 0x20 || octet == 0x7f;
}

std::string QuotedXattr(std::string_view value) {
  const bool utf8 = IsUtf8(value);
  std::string text = "\"";
  for (const char each : value) {
    if (each == '"' || each == '\\') {
      text += '\\';
      text += each;
    } else if (IsControlCharacter(each) || (!utf8 && static_cast<unsigned char>(each) >= 0x80)) {
      text += fmt::format("\\{:03o}", static_cast<unsigned char>(each));
    } else {
      text += each;
    }
  }
  return text + "\"";
}

std::string HexXattr(std::string_view value) {
  std::string text = "0x";
  for (const char each : value) text += fmt::format("{:02x}", static_cast<unsigned char>(each));
  return text;
}

std::string Base64Xattr(std::string_view value) {
  std::string text = "0s";
  for (size_t i = 0; i < value.size(); i += 3) {
    uint32_t bits = 0;
    const size_t count = std::min<size_t>(3, value.size() - i);
    for (size_t j = 0; j < 3; ++j) bits = bits << 8 | (j < count ? static_cast<unsigned char>(value[i + j]) : 0u);
    for (size_t j = 0; j < 4; ++j) text += j <= count ? kBase64[(bits >> (18 - 6 * j)) & 63] : '=';
  }
  return text;
}

std::optional<std::string> FromHex(std::string_view digits) {
  if (digits.size() % 2 != 0) return std::nullopt;
  std::string value;
  for (size_t i = 0; i < digits.size(); i += 2) {
    uint32_t octet = 0;
    for (const char digit : digits.substr(i, 2)) {
      const size_t number = std::string_view("0123456789abcdef0123456789ABCDEF").find(digit);
      if (number == std::string_view::npos) return std::nullopt;
      octet = octet * 16 + static_cast<uint32_t>(number % 16);
    }
    value += static_cast<char>(octet);
  }
  return value;
}

std::optional<std::string> FromBase64(std::string_view digits) {
  if (digits.size() % 4 != 0) return std::nullopt;
  std::string value;
  size_t filled = digits.find_last_not_of('=') + 1;
  if (digits.size() - filled > 2) return std::nullopt;
  uint32_t bits = 0;
  int count = 0;
  for (size_t i = 0; i < filled; ++i) {
    const size_t number = kBase64.find(digits[i]);
    if (number == kBase64.npos) return std::nullopt;
    bits = bits << 6 | static_cast<uint32_t>(number);
    count += 6;
    if (count < 8) continue;
    count -= 8;
    value += static_cast<char>((bits >> count) & 0xff);
  }
  return value;
}

std::optional<std::string> FromQuoted(std::string_view text) {
  std::string value;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '"') return std::nullopt;
    if (text[i] != '\\') {
      value += text[i];
      continue;
    }
    if (++i == text.size()) return std::nullopt;
    if (text[i] < '0' || text[i] > '7') {
      value += text[i];
      continue;
    }
    uint32_t octet = 0;
    const size_t end = i + 3;
    if (end > text.size()) return std::nullopt;
    for (; i < end; ++i) {
      if (text[i] < '0' || text[i] > '7') return std::nullopt;
      octet = octet * 8 + static_cast<uint32_t>(text[i] - '0');
    }
    --i;
    if (octet > 0xff) return std::nullopt;
    value += static_cast<char>(octet);
  }
  return value;
}

}  // namespace

std::string XattrText(ConstBytes value, std::string_view encoding) {
  const std::string_view text = AsText(value);
  if (encoding == "hex") return HexXattr(text);
  if (encoding == "base64") return Base64Xattr(text);
  const bool printable = IsUtf8(text) && std::ranges::none_of(text, IsControlCharacter);
  return encoding == "text" || printable ? QuotedXattr(text) : Base64Xattr(text);
}

std::optional<std::string> ParseXattr(std::string_view text) {
  if (text.starts_with("0x") || text.starts_with("0X")) return FromHex(text.substr(2));
  if (text.starts_with("0s") || text.starts_with("0S")) return FromBase64(text.substr(2));
  if (text.size() >= 2 && text.starts_with('"') && text.ends_with('"'))
    return FromQuoted(text.substr(1, text.size() - 2));
  return std::string(text);
}

}  // namespace penstock::cli
