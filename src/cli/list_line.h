// The output of `penstock ls` for one entry of a directory.
#pragma once

#include <string>

#include "client/mount.h"

namespace penstock::cli {

// Returns the line for an entry, without a line break. The long format shows mode, links, owner, group, size and the
// time of the last change in the local time zone before the name. For a referral it shows only that it is a directory.
// Names and owners are Printable().
std::string ListLine(const client::Entry& entry, bool long_format);

}  // namespace penstock::cli
