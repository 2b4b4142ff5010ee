// The objects of the mounted tree that the kernel knows, by the numbers that it uses for them.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/timer.h"
#include "client/known_names.h"
#include "client/node.h"
#include "fuse/file_end.h"
#include "fuse/read_ahead.h"
#include "fuse/write_behind.h"

namespace penstock::fuse {

// How long attributes and names stay valid, as in nfs(5).
struct CacheTimes {
  Duration file_least = std::chrono::seconds(3);
  Duration file_most = std::chrono::seconds(60);
  Duration directory_least = std::chrono::seconds(30);
  Duration directory_most = std::chrono::seconds(60);
};

struct OpenFile;

// The name of an open file that programs have removed.
struct HiddenName {
  client::Handle directory;
  std::string name;
};

// The order of what the tree learns and changes.
using Moment = uint64_t;

// The names of a directory that get another file, or none, while the directory is listed.
class NameChanges {
 public:
  void Note(std::string_view name, Moment at);
  // Whether the name may have changed after `moment`.
  bool MayBeAfter(std::string_view name, Moment moment) const;

 private:
  static constexpr size_t kMostNames = 4096;
  std::map<std::string, Moment, std::less<>> names_;
  Moment others_ = 0;  // of the last change of any other name
};

struct Inode {
  uint64_t number = 0;
  client::Handle handle;
  client::FileType type = client::FileType::kRegular;
  uint64_t lookups = 0;  // references of the kernel
  // The directory and the name that led to it last.
  uint64_t parent = 0;
  std::string name;
  // Its other names, as far as they are known. Empty if it has one link.
  std::set<std::pair<uint64_t, std::string>> other_names;

  // The last attributes from the server.
  client::Attributes attributes;
  Duration validity = Duration::zero();
  Moment updated = 0;  // when they were stored
  Moment written = 0;  // when the server last got data of programs
  // The change attribute of the data that the kernel may have cached.
  std::optional<uint64_t> cached_change;
  bool has_lost_data = false;  // data that programs have written are lost, and the kernel may have them cached

  std::shared_ptr<WriteBehind> writes;  // from the first open for writing on
  FileEnd end;
  std::vector<OpenFile*> opens;
  size_t opening = 0;   // requests that open it
  size_t removing = 0;  // requests that remove a name of it
  bool in_use() const { return !opens.empty() || opening > 0; }
  size_t pins = 0;  // see Pin
  // The name under which an open file stays on the server after its removal.
  std::optional<HiddenName> hidden;
  // For a directory: the number of programs that list it, and the names that change meanwhile.
  size_t listings = 0;
  std::unique_ptr<NameChanges> name_changes;

  // See FileEnd::Ask().
  FileEnd::Question AskForEnd();

  client::Node node(const client::Handle& directory) const {
    return {.handle = handle, .attributes = attributes, .directory = directory, .name = name};
  }
};

// Belongs to the loop. It tells the mounts the names of what the kernel knows.
class Inodes final : public client::KnownNames {
 public:
  static constexpr uint64_t kRoot = 1;

  Inodes(const client::Node& root, const CacheTimes& times);

  Inode& root() { return *Find(kRoot); }
  // Returns null if the kernel has forgotten the number.
  Inode* Find(uint64_t number);
  Inode* FindHandle(const client::Handle& handle) const;
  // Returns the inode of the node that `name` in `parent` leads to, and counts a reference of the kernel.
  Inode& Add(const client::Node& node, uint64_t parent, std::string_view name);
  // The same for an entry of a page of `directory`, which was asked for at `asked`. Something newer may be known: then
  // the attributes are not stored. Returns null, and counts nothing, if the name may lead to another file meanwhile.
  // A listing is under way: see BeginListing().
  Inode* AddListed(const client::Node& node, const Inode& directory, const std::string& name, Moment asked);
  Moment now() const { return now_; }
  void BeginListing(Inode& directory);
  void EndListing(Inode& directory);
  // Stores new attributes. Data that are cached are dropped if they may be those of before.
  void Update(Inode& inode, const client::Attributes& attributes);
  // Data of programs have reached the server: attributes that were asked for before are old.
  void HandleWritten(Inode& inode) { inode.written = ++now_; }
  // The kernel gives `count` references back.
  void Forget(uint64_t number, uint64_t count);

  void HandleOpened(Inode& inode, OpenFile& file);
  void HandleClosed(Inode& inode, OpenFile& file);
  // The inode that this name leads to, as far as it is known, or null.
  Inode* FindName(uint64_t parent, const std::string& name) const;
  // The same if a program has it open, or is opening it.
  Inode* FindOpen(uint64_t parent, const std::string& name);
  // Something has got another name, or has replaced what had it.
  void HandleRenamed(uint64_t from_parent, const std::string& from, uint64_t to_parent, const std::string& to);
  // The name leads nowhere.
  void HandleRemoved(uint64_t parent, const std::string& name);
  const std::unordered_set<Inode*>& open() const { return open_; }

  // KnownNames
  std::optional<Place> PlaceOf(const client::Handle& object) const override;
  bool Knows(const client::Handle& object) const override { return FindHandle(object) != nullptr; }
  std::optional<client::Handle> ObjectAt(const client::Handle& directory, std::string_view name) const override;

  // Keeps an inode while a request uses it.
  class Pin {
   public:
    Pin(Inodes& inodes, Inode& inode) : inodes_(&inodes), inode_(&inode) { ++inode.pins; }
    Pin(Pin&& other) noexcept : inodes_(other.inodes_), inode_(std::exchange(other.inode_, nullptr)) {}
    Pin& operator=(Pin&&) = delete;
    ~Pin() {
      if (!inode_) return;
      --inode_->pins;
      inodes_->Release(*inode_);
    }
    Inode* operator->() const { return inode_; }
    Inode& operator*() const { return *inode_; }

   private:
    Inodes* inodes_;
    Inode* inode_;
  };

 private:
  // Removes the inode if nothing refers to it any more.
  void Release(Inode& inode);
  Inode& Refer(const client::Node& node, uint64_t parent, std::string_view name);
  void AddName(Inode& inode, uint64_t parent, std::string name);
  void NoteChange(uint64_t parent, const std::string& name);
  void ForgetOtherNames(Inode& inode);

  struct Hash {
    size_t operator()(const client::Handle& handle) const;
  };

  const CacheTimes times_;
  uint64_t next_ = kRoot;
  Moment now_ = 0;
  std::unordered_map<uint64_t, std::unique_ptr<Inode>> inodes_;
  std::unordered_map<client::Handle, Inode*, Hash> by_handle_;
  std::map<std::pair<uint64_t, std::string>, Inode*> by_name_;  // by directory and name
  std::unordered_set<Inode*> open_;                             // those with opens
};

}  // namespace penstock::fuse
