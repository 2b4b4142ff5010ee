// The output of `penstock ls` for one entry of a directory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "client/mount.h"

namespace penstock::cli {

struct ListFormat {
  bool long_format = false;
  bool file_ids = false;
  bool human = false;      // sizes with units
  bool classify = false;   // a character behind the name shows the type
  bool full_time = false;  // with the nanoseconds and the time zone
  // Names without control characters (Printable()), for a terminal. Otherwise names are exact.
  bool printable = true;
  int64_t now = 0;  // in seconds since 1970
};

// The widths of the columns.
struct ListColumns {
  size_t file_id = 0;
  size_t links = 0;
  size_t owner = 0;
  size_t group = 0;
  size_t size = 0;
};
// Columns in which the values of all entries fit, unless an owner or group is longer than kMostColumn.
ListColumns ColumnsFor(const std::vector<client::Entry>& entries, const ListFormat& format);
inline constexpr size_t kMostColumn = 32;

// Returns the line for an entry, without a line break. The long format shows mode, links, owner, group, size and the
// time of the last change in the local time zone before the name, and the target of a symbolic link behind it if it is
// not empty. A size is two numbers for a device. For a referral the line shows only that it is a directory. Owners are
// Printable().
std::string ListLine(const client::Entry& entry, const ListFormat& format, const ListColumns& columns = {},
                     const std::string& target = {});

// For example "drwxr-xr-x".
std::string ModeText(const client::Attributes& attributes);
// The local time as ls shows it: "Nov 28 02:15", or "Nov 28  2024" if it is more than half a year ago or in the future.
// The seconds since 1970 if the calendar has no such year.
std::string TimeText(int64_t seconds, int64_t now);
// The local time with nanoseconds and zone: "2026-11-28 02:15:06.123456789 +0000".
std::string FullTimeText(const client::Time& time);

}  // namespace penstock::cli
