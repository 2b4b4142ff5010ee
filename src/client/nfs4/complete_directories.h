// The directories whose names this client knows all (RFC 8881 §10.8). A program that makes many files looks each name
// up first. Once the client has listed the directory, it knows itself that a name is absent. The change_info4 of each
// file that it makes there shows whether another client has changed the directory meanwhile.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <optional>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "base/timer.h"
#include "client/node.h"
#include "protocol/nfs4_types.h"

namespace penstock::client::v4 {

// Belongs to the loop of its mount. Knows what the server says to one user.
class CompleteDirectories {
 public:
  // An answer of the server counts for `trusted`, from the time when the client sent the request. Zero: the client
  // knows no directory.
  explicit CompleteDirectories(Duration trusted) : trusted_(trusted) {}

  enum class Advice {
    kAbsent,  // the name does not exist
    kAsk,     // only the server knows
    kList,    // the same, and the client should list the directory instead of looking the name up
  };
  Advice AdviceOn(const Handle& directory, std::string_view name, TimePoint now);

  // Exists while a request is under way that lists the directory, sent at `asked`. It refers to its arguments.
  class Listing {
   public:
    Listing(CompleteDirectories& directories, const Handle& directory, TimePoint asked);
    // Without a reply that counts, the next listing waits for more files.
    ~Listing();
    Listing(const Listing&) = delete;
    Listing& operator=(const Listing&) = delete;

    // The directory had the change attribute `change` when the listing of its first names began. `ends`: it has no
    // more. Does nothing if this client may have changed the directory meanwhile.
    void HandleListed(uint64_t change, const std::vector<std::string_view>& names, bool ends);

   private:
    CompleteDirectories& directories_;
    const Handle& handle_;
    const TimePoint asked_;
    uint64_t events_ = 0;
  };
  // Exists while the client makes a file, from the time `asked` on. It refers to its arguments.
  class Creation {
   public:
    Creation(CompleteDirectories& directories, const Handle& directory, std::string_view name, TimePoint asked)
        : directories_(directories), directory_(directory), name_(name), asked_(asked) {}
    // Without a reply, the file may have been made.
    ~Creation() {
      if (!done_) directories_.HandleChange(directory_);
    }
    Creation(const Creation&) = delete;
    Creation& operator=(const Creation&) = delete;

    const Handle& directory() const { return directory_; }
    std::string_view name() const { return name_; }
    // The file exists now.
    void HandleMade(const nfs4::change_info4& change) {
      done_ = true;
      directories_.HandleMade(directory_, name_, change, asked_);
    }

   private:
    CompleteDirectories& directories_;
    const Handle& directory_;
    const std::string_view name_;
    const TimePoint asked_;
    bool done_ = false;
  };
  // The client has changed the directory in another way, or may have.
  void HandleChange(const Handle& directory);

 private:
  // The most directories, and names in one.
  static constexpr size_t kMost = 16;
  static constexpr size_t kMostNames = 16 << 10;
  // A listing costs the server more than a look-up. It follows after so many files, and after more of them if the last
  // listing did not save enough look-ups.
  static constexpr size_t kFilesBefore = 2;
  static constexpr size_t kMostFilesBefore = 1 << 10;
  static constexpr size_t kSavedEnough = 8;

  struct Directory {
    Handle handle;
    uint64_t events = 0;     // changes when the last change by this client was counted
    bool is_listed = false;  // a listing is under way
    std::optional<uint64_t> change;
    // Digests of the names that may exist. Nothing if the client does not know them all.
    std::optional<std::unordered_set<uint64_t>> names;
    TimePoint asked;  // when the client began the last request that has shown no change by another client
    bool is_large = false;
    size_t made = 0;  // files that the client has made since it lost the names
    size_t made_before_listing = kFilesBefore;
    size_t saved = 0;  // look-ups that the names have saved
  };

  void HandleMade(const Handle& directory, std::string_view name, const nfs4::change_info4& change, TimePoint asked);
  // Returns null if it is not known, else makes it the most recently used one.
  Directory* Find(const Handle& directory);
  Directory& FindOrAdd(const Handle& directory);
  static void LoseNames(Directory& directory);
  // A listing did not save enough look-ups.
  static void ListLater(Directory& directory);

  const Duration trusted_;
  uint64_t events_ = 0;               // changes by this client, of all directories
  std::list<Directory> directories_;  // the most recently used first
};

}  // namespace penstock::client::v4
