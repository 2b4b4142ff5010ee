// Objects of a server as JSON, for programs.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "client/mount.h"

namespace penstock::cli {

using OrderedJson = nlohmann::ordered_json;

// "file", "directory", "symlink", "block device", "character device", "socket", "fifo", "other".
std::string_view TypeName(client::FileType type);
// The time in UTC as RFC 3339 writes it: "2026-11-28T02:15:06.123456789Z". A number of seconds if the calendar has no
// such year.
OrderedJson TimeJson(const client::Time& time);
// The entry under `path`, which is absolute on the server. Octets that are not UTF-8 become U+FFFD; then
// "path_octets" has the octets of the path in hexadecimal digits. An entry without attributes has only its path.
OrderedJson EntryJson(const std::string& path, const client::Entry& entry);
// The object as one line, with a line break.
std::string JsonLine(const OrderedJson& object);

}  // namespace penstock::cli
