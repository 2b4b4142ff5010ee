// Access control lists as text: of version 4 as nfs4_acl(5) writes them, and of POSIX as getfacl(1) does.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "client/node.h"

namespace penstock::cli {

// ---- version 4: "type:flags:principal:permissions", such as "A:g:GROUP@:rxtncy" ----

std::string AceText(const client::Ace& ace);
// Parses one entry. Returns nothing for anything else. R, W and X stand for the permissions of reading, writing and
// executing.
std::optional<client::Ace> ParseAce(std::string_view text);
// Parses entries that commas, spaces or line breaks separate. A line that begins with '#' is a comment. The error is
// the first text that is no entry.
Result<std::vector<client::Ace>, std::string> ParseAces(std::string_view text);

// ---- POSIX: "user:NAME:rwx" ----

// An entry whose user or group may have a name. In an access list that removes entries, the permissions are absent.
struct NamedPosixAce {
  bool is_default = false;
  uint32_t type = 0;  // as in client::PosixAce
  std::string name{};
  std::optional<uint32_t> permissions{};
};

// Parses "[default:]user|group|mask|other:[NAME][:PERMISSIONS]", where the words may be their first letters, and the
// permissions letters of rwx- or a digit. Entries are separated as above.
Result<std::vector<NamedPosixAce>, std::string> ParsePosixAces(std::string_view text);
// `name` is that of the user or group of a named entry.
std::string PosixAceText(const client::PosixAce& ace, const std::string& name);

// The list of a mode.
std::vector<client::PosixAce> PosixAclOfMode(uint32_t mode);
bool IsNamed(const client::PosixAce& ace);
// Replaces the entry of the same kind and id, or adds one.
void PutPosixAce(std::vector<client::PosixAce>& acl, const client::PosixAce& ace);
// Sets the mask to what the named entries and the group have together, if there are named entries or a mask.
void ComputeMask(std::vector<client::PosixAce>& acl);
// Brings the entries into the order that servers want.
void SortPosixAcl(std::vector<client::PosixAce>& acl);

}  // namespace penstock::cli
