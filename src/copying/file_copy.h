// Copies one regular file to a temporary file beside its target. Small files move in few calls. Large files move in
// pieces, several at the same time, and are made stable now and then, so that a copy that is killed can be resumed.
#pragma once

#include <list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/loop.h"
#include "copying/budget.h"
#include "copying/options.h"
#include "copying/temporary_name.h"
#include "copying/tree.h"

namespace penstock::copying {

// The octets that one read or write moves at most.
inline constexpr uint32_t kPiece = 1 << 20;

// What the copies of one run share. Belongs to the loop.
struct Run {
  Run(Loop& used_loop, const Options& used_options, Observer& used_observer)
      : loop(used_loop),
        options(used_options),
        observer(used_observer),
        memory(used_options.memory),
        rate(used_loop, used_options.rate) {}

  void Count(uint64_t octets) {
    totals.octets += octets;
    observer.Moved(totals);
  }

  Loop& loop;
  Options options;
  Observer& observer;
  Budget memory;
  RateLimit rate;
  Totals totals;
  bool stopping = false;  // nothing new begins

  // A temporary file that exists, or is about to.
  struct Temporary {
    std::shared_ptr<Directory> directory;
    TemporaryName name;
  };
  std::list<Temporary> temporaries;
};

// Keeps a temporary file in Run::temporaries.
class KnownTemporary {
 public:
  KnownTemporary(Run& run, std::shared_ptr<Directory> directory, TemporaryName name)
      : run_(run), at_(run.temporaries.insert(run.temporaries.end(), {std::move(directory), std::move(name)})) {}
  KnownTemporary(const KnownTemporary&) = delete;
  KnownTemporary& operator=(const KnownTemporary&) = delete;
  ~KnownTemporary() { run_.temporaries.erase(at_); }

  TemporaryName& name() { return at_->name; }
  Directory& directory() { return *at_->directory; }
  // Identifies the file, if it is a large one.
  std::optional<Attributes>& file() { return file_; }
  // Removes the file, unless a later copy is to resume it.
  Task<void> Discard();

 private:
  Run& run_;
  const std::list<Run::Temporary>::iterator at_;
  std::optional<Attributes> file_;
};

struct FileToCopy {
  std::shared_ptr<Directory> from;
  Entry entry;
  std::shared_ptr<Directory> to;
  std::string name;
  bool replaces = false;  // a file has the name
  // Temporary files of earlier copies of this file.
  std::vector<TemporaryName> leftovers{};
};

// Writes the copy and its attributes to `temporary`, whose name it may change. After success Directory::Publish() can
// follow. After an error the caller discards the file. `size` is that of the copy.
Task<Result<void>> CopyFile(Run& run, const FileToCopy& file, KnownTemporary& temporary, uint64_t& size);

// Whether two files of one size have the same contents.
Task<Result<bool>> HaveSameContents(Run& run, Directory& one, const Entry& first, Directory& other,
                                    const Entry& second);

// The attributes that a copy of an object with these attributes gets.
// With Options::keep_acls, the mode gives no right to groups and others: MatchAcl() follows.
NewAttributes KeptAttributes(const Options& options, const Attributes& of);
// Of an object that was there before: leaves its permissions, of the mode `now`, to its access control list.
void KeepPermissions(NewAttributes& kept, uint32_t now);

}  // namespace penstock::copying
