// The output of `penstock ls` for one entry of a directory.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "client/mount.h"

namespace penstock::cli {

// The widths of the columns of owners and groups.
struct ListColumns {
  size_t owner = 5;
  size_t group = 5;
};
// Columns in which the owners and groups of all entries fit, unless they are longer than kMostColumn.
ListColumns ColumnsFor(const std::vector<client::Entry>& entries);
inline constexpr size_t kMostColumn = 32;

// Returns the line for an entry, without a line break. The long format shows mode, links, owner, group, size and the
// time of the last change in the local time zone before the name. For a referral it shows only that it is a directory.
// Names and owners are Printable().
std::string ListLine(const client::Entry& entry, bool long_format, const ListColumns& columns = {});

}  // namespace penstock::cli
