#include "cli/list_line.h"

#include <fmt/chrono.h>
#include <fmt/core.h>

#include <ctime>
#include <string>
#include <string_view>

#include "cli/printable.h"

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
  if (!entry.attributes) return fmt::format("{:<57}{}", entry.is_referral ? "d?????????" : "??????????", name);
  const client::Attributes& a = *entry.attributes;
  return fmt::format("{} {:>3} {:>5} {:>5} {:>12} {} {}", ModeText(a), a.links, Printable(a.owner), Printable(a.group),
                     a.size, TimeText(a.modified), name);
}

}  // namespace penstock::cli
