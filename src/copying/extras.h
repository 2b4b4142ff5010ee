// What an object has beside its octets and attributes: access control lists and extended attributes. The ends of a copy
// have them in forms of their own: lists of POSIX, lists of version 4, or a mode alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/bytes.h"
#include "base/task.h"
#include "client/error.h"
#include "client/node.h"
#include "fs/acl.h"
#include "idmap/database.h"

namespace penstock::copying {

// The access control lists of an object, in the form that its end has.
using Acl = std::variant<fs::Acls, std::vector<client::Ace>>;

// An object of one of the ends, which is no symbolic link. Errors are reasons, without the name of the object.
class Extras {
 public:
  virtual ~Extras() = default;

  // The twelve mode bits when it was opened.
  uint32_t mode() const { return mode_; }
  // Whether Status::kNotSupported means that the object has none. Otherwise the protocol may hide what it has.
  virtual bool tells_all() const = 0;

  // Status::kNotSupported: the object has a mode only.
  virtual Task<client::Result<Acl>> GetAcl() = 0;
  // The list has the form of those that GetAcl() returns.
  virtual Task<client::Result<void>> SetAcl(Acl acl) = 0;
  virtual Task<client::Result<void>> SetMode(uint32_t mode) = 0;
  // Returns the number that a user or group has at this end, if it is known.
  virtual Task<std::optional<uint32_t>> NumberOf(idmap::Kind kind, std::string text) = 0;

  // Those of users, without "user.". Only regular files and directories have them.
  virtual Task<client::Result<std::vector<std::string>>> ListXattrs() = 0;
  // An attribute that does not exist is an error, ENODATA.
  virtual Task<client::Result<std::vector<std::byte>>> GetXattr(std::string name) = 0;
  virtual Task<client::Result<void>> SetXattr(std::string name, ConstBytes value) = 0;
  virtual Task<client::Result<void>> RemoveXattr(std::string name) = 0;

 protected:
  uint32_t mode_ = 0;
};

// What has become of the extras of one object. The object itself is good.
struct ExtrasReport {
  bool changed = false;                   // they differed; with `dry_run` they still do
  bool hidden = false;                    // the source cannot tell whether it has some
  std::vector<client::Error> failures{};  // what the target lacks now, and why
};

// How MatchAcl() and MatchXattrs() treat the target.
struct Matching {
  bool is_directory = false;
  bool is_new = false;   // the copy has made the target, with no right for groups and others
  bool dry_run = false;  // only compares
};

// Makes the lists of `to` equal to those of `from`. If `to` cannot have them, its lists or its mode allow nobody more
// than those of `from`. `source_mode` is the mode of the source; `special` are its set-user-ID, set-group-ID and sticky
// bits, as far as the copy keeps them.
Task<ExtrasReport> MatchAcl(Extras& from, Extras& to, uint32_t source_mode, uint32_t special, Matching how);
// Makes the extended attributes of `to` equal to those of `from`. One value at a time is in memory.
Task<ExtrasReport> MatchXattrs(Extras& from, Extras& to, Matching how);

}  // namespace penstock::copying
