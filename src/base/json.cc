#include "base/json.h"

#include <fmt/format.h>

#include <iterator>

#include "base/utf8.h"

namespace penstock {

std::string QuoteJson(std::string_view text) {
  if (!IsUtf8(text)) return QuoteJson(ReplaceInvalidUtf8(text));
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      quoted += '\\';
      quoted += c;
    } else if (c == '\n') {
      quoted += "\\n";
    } else if (static_cast<unsigned char>(c) < 0x20 || c == '<' || c == 0x7f) {
      fmt::format_to(std::back_inserter(quoted), "\\u{:04x}", static_cast<unsigned char>(c));
    } else {
      quoted += c;
    }
  }
  return quoted + '"';
}

}  // namespace penstock
