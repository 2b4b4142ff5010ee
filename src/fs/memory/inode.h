// One object of memory::FileSystem.
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
  Attributes attributes;  // fileid is the key of the inode

  Content content;                        // the data of a regular file
  std::optional<CreateVerifier> creator;  // the verifier of the exclusive Create that made the file
  std::string target;                     // the target of a symbolic link
  std::map<std::string, std::vector<std::byte>, std::less<>> xattrs;
  Acl acl;       // empty if the mode says the same
  Acl defaults;  // the default list of a directory
  int pins = 0;  // the number of pins, which keep the file without a name

  // The entries of a directory. Each new entry gets a higher place than all earlier ones, so a cookie keeps its meaning
  // while entries are added and removed.
  struct Entry {
    std::string name;
    uint64_t fileid;
  };
  uint64_t parent = 0;
  uint64_t next_place = kFirstPlace;
  std::map<uint64_t, Entry> entries;  // the key is the place
  std::unordered_map<std::string, uint64_t> places;

  static constexpr uint64_t kFirstPlace = 3;  // "." is 1 and ".." is 2

  bool is_directory() const { return attributes.type == FileType::kDirectory; }
  bool has_xattrs() const { return is_directory() || attributes.type == FileType::kRegular; }
  Rights RightsOf(const Credentials& caller) const {
    return acl.empty() ? fs::RightsOf(attributes, caller) : fs::RightsOf(acl, attributes, caller);
  }
};

}  // namespace penstock::fs::memory
