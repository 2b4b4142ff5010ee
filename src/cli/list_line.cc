#include "cli/list_line.h"

#include <fmt/chrono.h>
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <optional>
#include <string>
#include <string_view>

#include "cli/printable.h"
#include "cli/sizes.h"

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

// The character of `ls -F`, or nothing.
std::string_view ClassOf(const client::Entry& entry, bool long_format) {
  if (!entry.attributes) return entry.is_referral ? "/" : "";
  switch (entry.attributes->type) {
    case client::FileType::kDirectory:
      return "/";
    case client::FileType::kSymlink:
      return long_format ? "" : "@";
    case client::FileType::kSocket:
      return "=";
    case client::FileType::kFifo:
      return "|";
    case client::FileType::kRegular:
      return (entry.attributes->mode & 0111) != 0 ? "*" : "";
    default:
      return "";
  }
}

std::optional<std::tm> LocalTime(int64_t seconds) {
  const auto time = static_cast<std::time_t>(seconds);
  std::tm local{};
  if (!::localtime_r(&time, &local)) return std::nullopt;
  return local;
}

std::string SizeText(const client::Attributes& a, bool human) {
  using enum client::FileType;
  if (a.type == kBlockDevice || a.type == kCharacterDevice) {
    return fmt::format("{}, {}", a.device_major, a.device_minor);
  }
  return human ? HumanSize(a.size) : std::to_string(a.size);
}

// The characters of UTF-8: their first octets.
size_t WidthOf(const std::string& text) {
  const auto begins = [](char octet) { return (octet & 0xc0) != 0x80; };
  return static_cast<size_t>(std::ranges::count_if(text, begins));
}

// fmt would count the octets that are not UTF-8 in another way.
std::string Padded(std::string text, size_t width) {
  const size_t has = WidthOf(text);
  if (has < width) text.append(width - has, ' ');
  return text;
}

}  // namespace

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

std::string TimeText(int64_t seconds, int64_t now) {
  constexpr std::array kMonths{"Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  constexpr int64_t kHalfYear = 31'556'952 / 2;
  const auto local = LocalTime(seconds);
  if (!local) return fmt::format("{:>12}", seconds);
  const auto* const month = kMonths[static_cast<size_t>(local->tm_mon)];
  if (seconds <= now && seconds > now - kHalfYear) {
    return fmt::format("{} {:>2} {:02}:{:02}", month, local->tm_mday, local->tm_hour, local->tm_min);
  }
  return fmt::format("{} {:>2} {:>5}", month, local->tm_mday, int64_t{local->tm_year} + 1900);
}

std::string FullTimeText(const client::Time& time) {
  const auto local = LocalTime(time.seconds);
  if (!local) return fmt::format("{}.{:09}", time.seconds, time.nanoseconds);
  return fmt::format("{:%Y-%m-%d %H:%M:%S}.{:09} {:%z}", *local, time.nanoseconds, *local);
}

ListColumns ColumnsFor(const std::vector<client::Entry>& entries, const ListFormat& format) {
  const auto widen = [](size_t& column, size_t width, size_t most = ~size_t{0}) {
    if (width <= most) column = std::max(column, width);
  };
  ListColumns columns;
  for (const client::Entry& entry : entries) {
    if (!entry.attributes) continue;
    const client::Attributes& a = *entry.attributes;
    if (format.file_ids) widen(columns.file_id, std::to_string(a.file_id).size());
    if (!format.long_format) continue;
    widen(columns.links, std::to_string(a.links).size());
    widen(columns.owner, WidthOf(Printable(a.owner)), kMostColumn);
    widen(columns.group, WidthOf(Printable(a.group)), kMostColumn);
    widen(columns.size, SizeText(a, format.human).size());
  }
  return columns;
}

std::string ListLine(const client::Entry& entry, const ListFormat& format, const ListColumns& columns,
                     const std::string& target) {
  const auto shown = [&](const std::string& name) { return format.printable ? Printable(name) : name; };
  std::string name = shown(entry.name);
  if (format.classify) name += ClassOf(entry, format.long_format);
  std::string line;
  const auto* const a = entry.attributes ? &*entry.attributes : nullptr;
  if (format.file_ids) line = fmt::format("{:>{}} ", a ? std::to_string(a->file_id) : "?", columns.file_id);
  if (!format.long_format) return line + name;
  const auto column = [&](const std::string& value, size_t width) { line += fmt::format("{:>{}} ", value, width); };
  line += a ? ModeText(*a) : entry.is_referral ? "d?????????" : "??????????";
  line += ' ';
  column(a ? std::to_string(a->links) : "?", columns.links);
  line += Padded(a ? Printable(a->owner) : "?", columns.owner) + ' ';
  line += Padded(a ? Printable(a->group) : "?", columns.group) + ' ';
  column(a ? SizeText(*a, format.human) : "?", columns.size);
  if (format.full_time) {
    column(a ? FullTimeText(a->modified) : "?", 35);
  } else {
    column(a ? TimeText(a->modified.seconds, format.now) : "?", 12);
  }
  line += name;
  if (!target.empty()) line += " -> " + shown(target);
  return line;
}

}  // namespace penstock::cli
