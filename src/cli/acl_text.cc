#include "cli/acl_text.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <utility>

#include "protocol/nfs4.h"
#include "protocol/nfsacl.h"

namespace penstock::cli {
namespace {

using LetterBit = std::pair<char, uint32_t>;

constexpr std::array<LetterBit, 4> kAceTypes{{{'A', nfs4::ACE4_ACCESS_ALLOWED_ACE_TYPE},
                                              {'D', nfs4::ACE4_ACCESS_DENIED_ACE_TYPE},
                                              {'U', nfs4::ACE4_SYSTEM_AUDIT_ACE_TYPE},
                                              {'L', nfs4::ACE4_SYSTEM_ALARM_ACE_TYPE}}};
constexpr std::array<LetterBit, 8> kAceFlags{{{'f', nfs4::ACE4_FILE_INHERIT_ACE},
                                              {'d', nfs4::ACE4_DIRECTORY_INHERIT_ACE},
                                              {'n', nfs4::ACE4_NO_PROPAGATE_INHERIT_ACE},
                                              {'i', nfs4::ACE4_INHERIT_ONLY_ACE},
                                              {'S', nfs4::ACE4_SUCCESSFUL_ACCESS_ACE_FLAG},
                                              {'F', nfs4::ACE4_FAILED_ACCESS_ACE_FLAG},
                                              {'g', nfs4::ACE4_IDENTIFIER_GROUP},
                                              {'I', nfs4::ACE4_INHERITED_ACE}}};
constexpr std::array<LetterBit, 14> kAcePermissions{{{'r', nfs4::ACE4_READ_DATA},
                                                     {'w', nfs4::ACE4_WRITE_DATA},
                                                     {'a', nfs4::ACE4_APPEND_DATA},
                                                     {'D', nfs4::ACE4_DELETE_CHILD},
                                                     {'d', nfs4::ACE4_DELETE},
                                                     {'x', nfs4::ACE4_EXECUTE},
                                                     {'t', nfs4::ACE4_READ_ATTRIBUTES},
                                                     {'T', nfs4::ACE4_WRITE_ATTRIBUTES},
                                                     {'n', nfs4::ACE4_READ_NAMED_ATTRS},
                                                     {'N', nfs4::ACE4_WRITE_NAMED_ATTRS},
                                                     {'c', nfs4::ACE4_READ_ACL},
                                                     {'C', nfs4::ACE4_WRITE_ACL},
                                                     {'o', nfs4::ACE4_WRITE_OWNER},
                                                     {'y', nfs4::ACE4_SYNCHRONIZE}}};

std::string LettersOf(std::span<const LetterBit> letters, uint32_t bits) {
  std::string text;
  for (const auto& [letter, bit] : letters) {
    if ((bits & bit) != 0) text += letter;
  }
  return text;
}

std::optional<uint32_t> BitsOf(std::span<const LetterBit> letters, std::string_view text) {
  uint32_t bits = 0;
  for (const char each : text) {
    const auto found = std::ranges::find(letters, each, &LetterBit::first);
    if (found == letters.end()) return std::nullopt;
    bits |= found->second;
  }
  return bits;
}

// Replaces the letters of groups of permissions.
std::string Expanded(std::string_view permissions) {
  std::string text;
  for (const char each : permissions) {
    if (each == 'R') {
      text += "rntcy";
    } else if (each == 'W') {
      text += "watTNcCy";
    } else if (each == 'X') {
      text += "xtcy";
    } else {
      text += each;
    }
  }
  return text;
}

// The texts of a list, without comments.
std::vector<std::string_view> EntriesIn(std::string_view text) {
  std::vector<std::string_view> entries;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    std::string_view rest = line.starts_with('#') ? "" : line;
    while (!rest.empty()) {
      const size_t end = std::min(rest.find_first_of(", \t\r"), rest.size());
      // What getfacl adds behind an entry: "#effective:r--".
      if (rest.starts_with('#')) break;
      if (end > 0) entries.push_back(rest.substr(0, end));
      rest.remove_prefix(std::min(rest.size(), end + 1));
    }
  }
  return entries;
}

// Splits at colons.
std::vector<std::string_view> Fields(std::string_view text) {
  std::vector<std::string_view> fields;
  for (;;) {
    const size_t colon = text.find(':');
    fields.push_back(text.substr(0, colon));
    if (colon == text.npos) return fields;
    text.remove_prefix(colon + 1);
  }
}

std::optional<uint32_t> PosixPermissions(std::string_view text) {
  if (text.size() == 1 && text[0] >= '0' && text[0] <= '7') return static_cast<uint32_t>(text[0] - '0');
  if (text.empty()) return std::nullopt;
  uint32_t bits = 0;
  for (const char each : text) {
    const size_t at = std::string_view("xwr").find(each);
    if (at == std::string_view::npos && each != '-') return std::nullopt;
    if (at != std::string_view::npos) bits |= 1u << at;
  }
  return bits;
}

std::optional<NamedPosixAce> ParsePosixAce(std::string_view text) {
  std::vector<std::string_view> fields = Fields(text);
  const auto is = [](std::string_view field, std::string_view word) {
    return field == word || field == word.substr(0, 1);
  };
  NamedPosixAce ace;
  if (is(fields.front(), "default")) {
    ace.is_default = true;
    fields.erase(fields.begin());
  }
  if (fields.empty()) return std::nullopt;
  const std::string_view kind = fields.front();
  const bool named_kind = is(kind, "user") || is(kind, "group");
  // "other:r" has no field for a name.
  if (fields.size() == 2 && !named_kind && !fields[1].empty()) fields.insert(fields.begin() + 1, "");
  if (fields.size() > 3) return std::nullopt;
  if (fields.size() > 1) ace.name = fields[1];
  if (is(kind, "user")) {
    ace.type = ace.name.empty() ? nfsacl::NA_USER_OBJ : nfsacl::NA_USER;
  } else if (is(kind, "group")) {
    ace.type = ace.name.empty() ? nfsacl::NA_GROUP_OBJ : nfsacl::NA_GROUP;
  } else if (is(kind, "mask")) {
    ace.type = nfsacl::NA_CLASS_OBJ;
  } else if (is(kind, "other")) {
    ace.type = nfsacl::NA_OTHER_OBJ;
  } else {
    return std::nullopt;
  }
  if (!named_kind && !ace.name.empty()) return std::nullopt;
  if (fields.size() == 3) {
    ace.permissions = PosixPermissions(fields[2]);
    if (!ace.permissions) return std::nullopt;
  }
  return ace;
}

}  // namespace

// ---- version 4 ----

std::string AceText(const client::Ace& ace) {
  const auto type = std::ranges::find(kAceTypes, ace.type, &LetterBit::second);
  const std::string letter = type == kAceTypes.end() ? std::to_string(ace.type) : std::string(1, type->first);
  return fmt::format("{}:{}:{}:{}", letter, LettersOf(kAceFlags, ace.flags), ace.who,
                     LettersOf(kAcePermissions, ace.mask));
}

std::optional<client::Ace> ParseAce(std::string_view text) {
  const std::vector<std::string_view> fields = Fields(text);
  if (fields.size() != 4 || fields[0].size() != 1 || fields[2].empty()) return std::nullopt;
  const auto type = std::ranges::find(kAceTypes, fields[0][0], &LetterBit::first);
  const auto flags = BitsOf(kAceFlags, fields[1]);
  const auto mask = BitsOf(kAcePermissions, Expanded(fields[3]));
  if (type == kAceTypes.end() || !flags || !mask) return std::nullopt;
  client::Ace ace{type->second, *flags, *mask, std::string(fields[2])};
  // nfs4_acl(5): the group of the file is a group.
  if (ace.who == "GROUP@") ace.flags |= nfs4::ACE4_IDENTIFIER_GROUP;
  return ace;
}

Result<std::vector<client::Ace>, std::string> ParseAces(std::string_view text) {
  std::vector<client::Ace> aces;
  const auto entries = EntriesIn(text);
  for (const std::string_view entry : entries) {
    auto ace = ParseAce(entry);
    if (!ace) return std::unexpected(std::string(entry));
    aces.push_back(*std::move(ace));
  }
  return aces;
}

// ---- POSIX ----

Result<std::vector<NamedPosixAce>, std::string> ParsePosixAces(std::string_view text) {
  std::vector<NamedPosixAce> aces;
  const auto entries = EntriesIn(text);
  for (const std::string_view entry : entries) {
    auto ace = ParsePosixAce(entry);
    if (!ace) return std::unexpected(std::string(entry));
    aces.push_back(*std::move(ace));
  }
  return aces;
}

std::string PosixAceText(const client::PosixAce& ace, const std::string& name) {
  std::string_view kind = "other";
  if (ace.type == nfsacl::NA_USER_OBJ || ace.type == nfsacl::NA_USER) kind = "user";
  if (ace.type == nfsacl::NA_GROUP_OBJ || ace.type == nfsacl::NA_GROUP) kind = "group";
  if (ace.type == nfsacl::NA_CLASS_OBJ) kind = "mask";
  const auto letter = [&](uint32_t bit, char shown) { return (ace.permissions & bit) != 0 ? shown : '-'; };
  return fmt::format("{}:{}:{}{}{}", kind, IsNamed(ace) ? name : "", letter(4, 'r'), letter(2, 'w'), letter(1, 'x'));
}

std::vector<client::PosixAce> PosixAclOfMode(uint32_t mode) {
  return {{nfsacl::NA_USER_OBJ, 0, (mode >> 6) & 7},
          {nfsacl::NA_GROUP_OBJ, 0, (mode >> 3) & 7},
          {nfsacl::NA_OTHER_OBJ, 0, mode & 7}};
}

bool IsNamed(const client::PosixAce& ace) { return ace.type == nfsacl::NA_USER || ace.type == nfsacl::NA_GROUP; }

void PutPosixAce(std::vector<client::PosixAce>& acl, const client::PosixAce& ace) {
  const auto same = [&](const client::PosixAce& each) {
    return each.type == ace.type && (!IsNamed(ace) || each.id == ace.id);
  };
  const auto found = std::ranges::find_if(acl, same);
  if (found == acl.end()) {
    acl.push_back(ace);
  } else {
    *found = ace;
  }
}

void ComputeMask(std::vector<client::PosixAce>& acl) {
  uint32_t mask = 0;
  bool needed = false;
  for (const client::PosixAce& ace : acl) {
    if (IsNamed(ace) || ace.type == nfsacl::NA_GROUP_OBJ) mask |= ace.permissions;
    needed = needed || IsNamed(ace) || ace.type == nfsacl::NA_CLASS_OBJ;
  }
  if (needed) PutPosixAce(acl, {nfsacl::NA_CLASS_OBJ, 0, mask});
}

void SortPosixAcl(std::vector<client::PosixAce>& acl) {
  std::ranges::sort(acl, {}, [](const client::PosixAce& ace) { return std::pair(ace.type, ace.id); });
}

}  // namespace penstock::cli
