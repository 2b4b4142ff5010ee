// What memory::FileSystem keeps of one object.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "fs/acl.h"
#include "fs/memory/content.h"
#include "fs/types.h"

namespace penstock::fs::memory {

struct Inode {
  Attributes attributes;  // its fileid is the inode's key

  Content content;                        // of a regular file
  std::optional<CreateVerifier> creator;  // of one that an exclusive Create made
  std::string target;                     // of a symbolic link
  std::map<std::string, std::vector<std::byte>, std::less<>> xattrs;
  Acl acl;       // empty where the mode says it all
  Acl defaults;  // of a directory
  int pins = 0;  // whoever wants it to stay without a name

  // Of a directory. A new entry's place is after all that ever were, so a cookie means the same whatever comes and
  // goes.
  struct Entry {
    std::string name;
    uint64_t fileid;
  };
  uint64_t parent = 0;
  uint64_t next_place = kFirstPlace;
  std::map<uint64_t, Entry> entries;  // by place
  std::unordered_map<std::string, uint64_t> places;

  static constexpr uint64_t kFirstPlace = 3;  // "." is 1 and ".." is 2

  bool is_directory() const { return attributes.type == FileType::kDirectory; }
  bool has_xattrs() const { return is_directory() || attributes.type == FileType::kRegular; }
  Rights RightsOf(const Credentials& caller) const {
    return acl.empty() ? fs::RightsOf(attributes, caller) : fs::RightsOf(acl, attributes, caller);
  }
};

}  // namespace penstock::fs::memory
