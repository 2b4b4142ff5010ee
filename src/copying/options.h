// What a copy does, and what it tells while it runs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "copying/patterns.h"
#include "copying/tree.h"

namespace penstock::copying {

struct Options {
  bool recursive = false;
  // Which attributes a copy gets. Without kept modes it gets the permissions of its source, less the umask on this
  // machine, or those of the file that it replaces.
  bool keep_modes = false;
  bool keep_times = false;
  bool keep_owners = false;
  bool keep_groups = false;
  // With the access control list, which includes the permissions, of each object. Needs keep_modes.
  bool keep_acls = false;
  bool keep_xattrs = false;
  bool hard_links = false;  // files with several names in the tree have them in the copy
  bool special_files = false;
  // Leave a file as it is that has the size and the modification time of its source.
  bool skip_same = false;
  // Compare the contents of files of one size instead of their times.
  bool compare_contents = false;
  // A large file that was not finished stays, and the next copy resumes it. Without this, only a copy that was killed
  // leaves one.
  bool keep_partial = false;
  bool delete_others = false;   // delete what the source does not have
  bool replace_others = false;  // replace an object of another type
  bool dry_run = false;
  bool verify = false;  // read each copy back and compare it
  Filter filter;
  unsigned jobs = 32;       // files at the same time
  unsigned in_flight = 16;  // READs or WRITEs of one file at the same time
  uint64_t memory = 64 << 20;
  uint64_t rate = 0;  // octets a second; zero: no limit
  // The parts after which a large file is made stable, so that a later copy resumes behind them.
  uint64_t checkpoint = 128 << 20;
};

struct Totals {
  uint64_t files_found = 0;   // that are to be copied, as far as the tree is known
  uint64_t octets_found = 0;  // of them
  uint64_t files = 0;         // that were copied
  uint64_t octets = 0;        // that were copied, or found by an earlier copy, or are holes
  uint64_t skipped = 0;       // files that were the same already
  uint64_t others = 0;        // directories, links and special files that were made
  uint64_t mended = 0;        // access control lists and sets of extended attributes of objects that were there
  uint64_t deleted = 0;
  uint64_t errors = 0;
};

enum class Action : uint8_t {
  kCopied,
  kSkipped,
  kMadeDirectory,
  kMadeLink,     // a symbolic link
  kLinked,       // a hard link
  kMadeSpecial,  // a FIFO, socket or device node
  kDeleted,
  kSetAcl,     // of an object that was there
  kSetXattrs,  // the same
};

// Learns what a copy does. Called on the loop.
class Observer {
 public:
  virtual ~Observer() = default;
  // `from` is empty for a deletion. With Options::dry_run it tells what would be done.
  virtual void Started(const std::string& /*from*/, const std::string& /*to*/, uint64_t /*octets*/) {}
  virtual void Done(Action, const std::string& /*from*/, const std::string& /*to*/, uint64_t /*octets*/) {}
  virtual void Failed(const std::string& from, const std::string& to, const Error& error) = 0;
  virtual void Moved(const Totals&) {}
};

}  // namespace penstock::copying
