#include "cli/list_line.h"

#include <fmt/chrono.h>
#include <fmt/core.h>

#include <algorithm>
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

ListColumns ColumnsFor(const std::vector<client::Entry>& entries) {
  // Counts the characters of UTF-8: their first octets.
  const auto widen = [](size_t& column, const std::string& text) {
    const auto begins = [](char octet) { return (octet & 0xc0) != 0x80; };
    const auto width = static_cast<size_t>(std::ranges::count_if(text, begins));
    if (width <= kMostColumn) column = std::max(column, width);
  };
  ListColumns columns;
  for (const client::Entry& entry : entries) {
    if (!entry.attributes) continue;
    widen(columns.owner, Printable(entry.attributes->owner));
    widen(columns.group, Printable(entry.attributes->group));
  }
  return columns;
}

std::string ListLine(const client::Entry& entry, bool long_format, const ListColumns& columns) {
  std::string name = Printable(entry.name);
  if (!long_format) return name;
  if (!entry.attributes) {
    const size_t width = 47 + columns.owner + columns.group;  // of the other columns with their spaces
    return fmt::format("{:<{}}{}", entry.is_referral ? "d?????????" : "??????????", width, name);
  }
  const client::Attributes& a = *entry.attributes;
  return fmt::format("{} {:>3} {:>{}} {:>{}} {:>12} {} {}", ModeText(a), a.links, Printable(a.owner), columns.owner,
                     Printable(a.group), columns.group, a.size, TimeText(a.modified.seconds), name);
}

}  // namespace penstock::cli
