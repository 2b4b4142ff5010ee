// The entry of a client in the object of a run: its key is the owner in hexadecimal digits, its value
//
//   0        4     8            12
//   +--------+-----+------------+-------+------+
//   | flavor | uid | owner size | owner | name |
//   +--------+-----+------------+-------+------+
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "nfs/v4/state/stable/recovery.h"

namespace penstock::cluster {

std::string KeyOf(std::string_view owner);
std::string ValueOf(const nfs::v4::RecoveryRecord& client);
// Returns nothing for a value that ValueOf() does not write.
std::optional<nfs::v4::RecoveryRecord> ParseClient(std::string_view value);

}  // namespace penstock::cluster
