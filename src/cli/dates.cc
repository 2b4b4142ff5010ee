#include "cli/dates.h"

#include <charconv>
#include <cstdint>
#include <ctime>

namespace penstock::cli {
namespace {

// Reads the text from its beginning.
class DateReader {
 public:
  explicit DateReader(std::string_view text) : rest_(text) {}

  bool at_end() const { return rest_.empty(); }
  bool Skip(char wanted) {
    if (!rest_.starts_with(wanted)) return false;
    rest_.remove_prefix(1);
    return true;
  }
  // A number of exactly `digits` digits, from `least` to `most`.
  std::optional<int> Number(size_t digits, int least, int most) {
    int value = 0;
    if (rest_.size() < digits) return std::nullopt;
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + digits, value);
    if (error != std::errc() || end != rest_.data() + digits || rest_.front() == '-') return std::nullopt;
    rest_.remove_prefix(digits);
    if (value < least || value > most) return std::nullopt;
    return value;
  }
  std::optional<int64_t> Seconds() {
    int64_t value = 0;
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
    if (error != std::errc()) return std::nullopt;
    rest_.remove_prefix(static_cast<size_t>(end - rest_.data()));
    return value;
  }
  // The digits behind a point as nanoseconds. Zero without a point.
  std::optional<uint32_t> Fraction() {
    if (!Skip('.') && !Skip(',')) return 0;
    uint32_t value = 0;
    size_t digits = 0;
    for (; !rest_.empty() && rest_.front() >= '0' && rest_.front() <= '9'; rest_.remove_prefix(1), ++digits) {
      if (digits < 9) value = value * 10 + static_cast<uint32_t>(rest_.front() - '0');
    }
    if (digits == 0) return std::nullopt;
    for (; digits < 9; ++digits) value *= 10;
    return value;
  }
  // The offset from UTC in seconds, or nothing if there is none. `valid` becomes false for a wrong one.
  std::optional<int> Zone(bool& valid) {
    if (Skip('Z')) return 0;
    const int sign = Skip('+') ? 1 : Skip('-') ? -1 : 0;
    if (sign == 0) return std::nullopt;
    const auto hours = Number(2, 0, 23);
    Skip(':');
    const auto minutes = Number(2, 0, 59);
    valid = hours && minutes;
    if (!valid) return std::nullopt;
    return sign * (*hours * 3600 + *minutes * 60);
  }

 private:
  std::string_view rest_;
};

}  // namespace

std::optional<client::Time> ParseDate(std::string_view text) {
  DateReader reader(text);
  client::Time time;
  if (reader.Skip('@')) {
    const bool negative = text.starts_with("@-");
    const auto seconds = reader.Seconds();
    const auto fraction = reader.Fraction();
    if (!seconds || !fraction || !reader.at_end() || (negative && *fraction != 0)) return std::nullopt;
    return client::Time{*seconds, *fraction};
  }
  std::tm parts{};
  const auto year = reader.Number(4, 0, 9999);
  const bool first = reader.Skip('-');
  const auto month = reader.Number(2, 1, 12);
  const bool second = reader.Skip('-');
  const auto day = reader.Number(2, 1, 31);
  if (!year || !first || !month || !second || !day) return std::nullopt;
  parts.tm_year = *year - 1900;
  parts.tm_mon = *month - 1;
  parts.tm_mday = *day;
  parts.tm_isdst = -1;
  std::optional<int> zone;
  if (!reader.at_end()) {
    if (!reader.Skip(' ') && !reader.Skip('T')) return std::nullopt;
    const auto hour = reader.Number(2, 0, 23);
    const bool colon = reader.Skip(':');
    const auto minute = reader.Number(2, 0, 59);
    if (!hour || !colon || !minute) return std::nullopt;
    parts.tm_hour = *hour;
    parts.tm_min = *minute;
    if (reader.Skip(':')) {
      const auto seconds = reader.Number(2, 0, 60);
      const auto fraction = reader.Fraction();
      if (!seconds || !fraction) return std::nullopt;
      parts.tm_sec = *seconds;
      time.nanoseconds = *fraction;
    }
    reader.Skip(' ');
    bool valid = true;
    zone = reader.Zone(valid);
    if (!valid || !reader.at_end()) return std::nullopt;
  }
  const int day_before = parts.tm_mday;
  if (zone) {
    time.seconds = ::timegm(&parts) - *zone;
  } else {
    time.seconds = std::mktime(&parts);
  }
  // The calendar has moved 31 April to May.
  if (parts.tm_mday != day_before && parts.tm_mon != *month - 1) return std::nullopt;
  return time;
}

}  // namespace penstock::cli
