#include "xdr/print.h"

#include <fmt/format.h>

#include <iterator>

namespace penstock::xdr {

namespace {
constexpr size_t kLongestString = 80;
constexpr size_t kLongestHex = 16;
}  // namespace

void Printer::Text(std::string_view text) {
  if (!full()) out_.append(text.substr(0, limit_ - out_.size()));
}
void Printer::Number(uint64_t value) { Text(fmt::format("{}", value)); }
void Printer::Number(int64_t value) { Text(fmt::format("{}", value)); }
void Printer::Number(double value) { Text(fmt::format("{}", value)); }

void Printer::Quoted(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text.substr(0, kLongestString)) {
    if (c == '"' || c == '\\') {
      quoted += '\\';
      quoted += c;
    } else if (c >= 0x20 && c < 0x7f) {
      quoted += c;
    } else {
      fmt::format_to(std::back_inserter(quoted), "\\x{:02x}", static_cast<unsigned char>(c));
    }
  }
  quoted += text.size() > kLongestString ? "...\"" : "\"";
  Text(quoted);
}

void Printer::Hex(ConstBytes bytes) {
  std::string hex = "0x";
  for (const std::byte b : bytes.first(std::min(bytes.size(), kLongestHex))) {
    fmt::format_to(std::back_inserter(hex), "{:02x}", std::to_integer<unsigned>(b));
  }
  if (bytes.size() > kLongestHex) fmt::format_to(std::back_inserter(hex), "...[{}]", bytes.size());
  Text(hex);
}

std::string Printer::Take() && {
  if (full()) out_ += "...";
  return std::move(out_);
}

}  // namespace penstock::xdr
