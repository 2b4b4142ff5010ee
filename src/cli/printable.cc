#include "cli/printable.h"

#include <unistd.h>

#include <cstddef>
#include <cstdint>

#include "base/utf8.h"

namespace penstock::cli {

std::string Printable(std::string_view text) {
  const bool utf8 = IsUtf8(text);
  std::string printable;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto octet = static_cast<uint8_t>(text[i]);
    const bool c1 = utf8 && octet == 0xc2 && static_cast<uint8_t>(text[i + 1]) < 0xa0;
    const bool control = octet < 0x20 || octet == 0x7f || c1 || (!utf8 && octet >= 0x80);
    printable += control ? '?' : text[i];
    if (c1) ++i;
  }
  return printable;
}

bool OutputIsTerminal() { return ::isatty(STDOUT_FILENO) == 1; }

}  // namespace penstock::cli
