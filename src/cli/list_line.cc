#include "cli/list_line.h"

#include <fmt/chrono.h>
#include <fmt/core.h>

#include <cstdint>
#include <ctime>
#include <string>
#include <string_view>

#include "base/utf8.h"

namespace penstock::cli {
namespace {

char TypeLetter(client::FileType type) {
  switch (type) {
    case client::FileType::kDirectory:
      return 'd';
    case client::FileType::kBlockDevice:
      return 'b';
    case client::FileType::kCharacterDevice:
      return 'c';
    case client::FileType::kSymlink:
      return 'l';
    case client::FileType::kSocket:
      return 's';
    case client::FileType::kFifo:
      return 'p';
    case client::FileType::kOther:
      return '?';
    case client::FileType::kRegular:
      break;
  }
  return '-';
}

// For example "drwxr-xr-x".
std::string ModeText(const client::Attributes& attributes) {
  std::string text(1, TypeLetter(attributes.type));
  for (int bit = 8; bit >= 0; --bit) text += (attributes.mode >> bit) & 1 ? "xwr"[bit % 3] : '-';
  const auto special = [&](uint32_t bit, size_t at, char letter) {
    if (attributes.mode & bit) text[at] = text[at] == 'x' ? letter : static_cast<char>(letter - 'a' + 'A');
  };
  special(04000, 3, 's');
  special(02000, 6, 's');
  special(01000, 9, 't');
  return text;
}

// Returns the text with '?' for each control character: C0, DEL and C1 (U+0080 to U+009F, in UTF-8 C2 80 to C2 9F). If
// the text is not UTF-8, also with '?' for each octet that is not ASCII.
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

// The local time, or the seconds since 1970 if the calendar has no such year.
std::string TimeText(int64_t seconds) {
  const auto time = static_cast<std::time_t>(seconds);
  std::tm local{};
  if (!::localtime_r(&time, &local)) return fmt::format("{:>16}", seconds);
  return fmt::format("{:%Y-%m-%d %H:%M}", local);
}

}  // namespace

std::string ListLine(const client::Entry& entry, bool long_format) {
  std::string name = Printable(entry.name);
  if (!long_format) return name;
  if (!entry.attributes) return fmt::format("{:<57}{}", "??????????", name);
  const client::Attributes& a = *entry.attributes;
  return fmt::format("{} {:>3} {:>5} {:>5} {:>12} {} {}", ModeText(a), a.links, Printable(a.owner), Printable(a.group),
                     a.size, TimeText(a.modified), name);
}

}  // namespace penstock::cli
