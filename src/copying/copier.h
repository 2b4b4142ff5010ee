// Copies trees of files. Many files move at the same time: while some directories are listed, the files of others are
// opened, read, written and closed. The number of files at a time, the memory for their octets and the length of the
// queue are bounded.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "copying/file_copy.h"
#include "copying/stream_copy.h"

namespace penstock::copying {

class Copier {
 public:
  // All outlive the copier. `target` is the tree of all targets.
  Copier(Loop& loop, Tree& target, const Options& options, Observer& observer);
  ~Copier();
  Copier(const Copier&) = delete;
  Copier& operator=(const Copier&) = delete;

  // These only note what to copy; Run() does it.

  // Copies the entry of `from` to the name `name` in `to`.
  void AddEntry(std::shared_ptr<Directory> from, Entry entry, std::shared_ptr<Directory> to, std::string name);
  // Copies what the directory has into another directory, and its attributes.
  void AddContents(std::shared_ptr<Directory> from, std::shared_ptr<Directory> to);
  // Copies the directory `from`, which may be the root of a tree, to the name `name` in `to`.
  void AddDirectory(std::shared_ptr<Directory> from, std::shared_ptr<Directory> to, std::string name);
  // Copies an open file, which is read from its position to its end, to a new file. The workers and the descriptor
  // outlive the copier.
  void AddStream(Stream stream, std::shared_ptr<Directory> to, std::string name);

  // Returns when everything is copied and on stable storage. Errors of files go to the observer, and the others go on.
  // Fails if the changes cannot be made stable.
  Task<Result<void>> Run();

  // Makes Run() return soon: files that are under way fail. Then Discard() cleans up.
  void Stop();
  // Removes the temporary files of all copies that are under way, but for those that Options::keep_partial keeps.
  Task<void> Discard();

  const Totals& totals() const { return run_.totals; }

 private:
  // A directory whose contents are being copied. It ends with its last entry.
  struct Work {
    std::shared_ptr<Work> above{};  // null for a root
    std::shared_ptr<Directory> from{};
    std::shared_ptr<Directory> to{};  // null in a dry run, if it does not exist
    std::string path{};               // below the tree, for patterns
    std::string to_name{};            // the target's name in messages
    Attributes attributes{};          // of the source
    bool is_new = false;
    bool may_have_entries = false;  // the target
    size_t pending = 1;             // entries that are not done, and the listing
    // What the target has.
    std::map<std::string, Entry> existing{};
    std::multimap<std::string, TemporaryName> leftovers{};  // by their target's name, which may be cut
  };
  using WorkPointer = std::shared_ptr<Work>;

  // An entry that waits for its turn.
  struct Item {
    WorkPointer work{};  // the directory around it; null for an argument of the command line
    std::shared_ptr<Directory> from{};
    Entry entry{};
    std::shared_ptr<Directory> to{};  // null in a dry run, if it does not exist
    std::string to_name{};            // the target's name in messages
    std::string name{};
    // Copies what this directory has. The members above are unset, or they tell where a directory is made for it.
    WorkPointer contents{};
    std::optional<Stream> stream{};  // in place of `from` and `entry`

    std::string source() const {
      if (contents) return contents->from->name();
      return stream ? stream->name : from->NameOf(entry.name);
    }
  };

  // Files of the source that are one file with several names.
  using LinkKey = std::tuple<const void*, uint64_t, uint64_t>;
  struct Links {
    bool is_copied = false;
    std::shared_ptr<Directory> to{};  // where the first name was copied
    std::string name{};
    std::vector<Item> waiting{};
  };

  // Starts what may start.
  void Pump();
  void PumpOnce();
  void DropAll();
  bool is_ending() const { return run_.stopping || full_; }

  // copier.cc: directories
  Task<void> Walk(Item item);
  Task<Result<WorkPointer>> Enter(const Item& item);
  Task<Result<WorkPointer>> EnterContents(Item& item);
  Task<Result<void>> EnterTarget(const Item& item, Work& work);
  Task<void> WalkContents(WorkPointer work);
  Task<Result<void>> ListTarget(Work& work);
  Task<Result<void>> Arrange(const WorkPointer& work, Entry entry);
  Task<void> DeleteOthers(const Work& work, const std::set<std::string>& kept);
  Task<Result<void>> Delete(Directory& directory, const Entry& entry, const std::string& target);
  void End(WorkPointer work);
  Task<void> EndDirectory(WorkPointer work);
  // `mode`: the target's, if it is known.
  Task<Result<void>> SetDirectoryAttributes(Work& work, std::optional<uint32_t> mode);

  // copier_entries.cc: files and others
  Task<void> CopyOne(Item item);
  Task<Result<void>> CopyEntry(Item& item, bool& waits);
  Task<Result<void>> CopyFound(const Item& item, std::optional<Entry> existing);
  Task<Result<void>> Skip(const Item& item);
  Task<Result<std::optional<Entry>>> FindExisting(const Item& item);
  Task<Result<std::vector<TemporaryName>>> FindLeftovers(const Item& item, const TemporaryName& name);
  Task<bool> IsPublished(const Item& item, KnownTemporary& temporary);
  Task<Result<void>> RemoveLeftovers(const Item& item);
  Task<Result<bool>> LeaveSame(const Item& item, const Entry& existing);
  Task<Result<Entry>> CloseForNewOwners(const Item& item, Entry existing);
  Task<Result<void>> MendAttributes(const Item& item, const Entry& existing);
  Task<Result<void>> SetKeptOf(const Item& item, const std::string& name, const NewAttributes& kept);
  Task<Result<void>> CopyRegular(const Item& item, bool replaces);
  Task<Result<void>> TryToCopy(const Item& item, bool replaces, uint64_t& size);
  Task<Result<void>> CopyStream(const Item& item);
  Task<Result<void>> CopySymlink(const Item& item, const std::optional<Entry>& existing);
  Task<Result<void>> CopySpecial(const Item& item, const std::optional<Entry>& existing);
  Task<Result<void>> MakeLink(const Item& item, const Links& links, std::optional<Entry> existing);
  // Runs `make(name)` with the target's name, or with a temporary name that then replaces an existing object.
  template <class Make>
  Task<Result<void>> Replace(const Item& item, bool exists, Make make);
  Task<Result<void>> MakeRoom(const Item& item, std::optional<Entry>& existing);
  LinkKey KeyOf(const Item& item) const;
  // Lets the other names of a file go on when its first name, `item`, is done.
  void HandleLinks(const Item& item, bool copied);

  // copier_extras.cc: access control lists and extended attributes
  struct ExtrasOf {
    Extras& from;
    Extras& to;
    std::string source_name;
    std::string target_name;
    Attributes source;
  };
  bool keeps_extras() const { return run_.options.keep_acls || run_.options.keep_xattrs; }
  Task<Result<void>> MatchNew(const Item& item, const std::string& target);
  // Sets all attributes of the directory.
  Task<Result<void>> MatchDirectory(Work& work);
  Task<void> MatchAclOf(ExtrasOf objects, Matching how);
  Task<void> MatchXattrsOf(ExtrasOf objects, Matching how);
  void Tell(const ExtrasOf& objects, const ExtrasReport& report, Matching how, Action action);

  // If the error says that the target does not let this user set owners, reports that once, and ends the attempts.
  // `tried`: whether the call that failed has set an owner or a group.
  bool GoesOnWithoutOwners(const std::string& target, const Error& error, bool tried);
  bool sets_owners() const { return run_.options.keep_owners || run_.options.keep_groups; }
  // Sets attributes, without the owner and the group if the target refuses those.
  template <class Set>
  Task<Result<void>> SetKept(const std::string& target, NewAttributes kept, Set set);
  // The copy of the object has failed. If the target has no room, nothing new begins.
  void Fail(const std::string& from, const std::string& to, const Error& error);
  // The object is there, but lacks something.
  void Complain(const std::string& from, const std::string& to, const Error& error);
  void Done(Action action, const std::string& from, const std::string& to, uint64_t octets = 0);

  copying::Run run_;
  Tree& target_;
  std::vector<Item> directories_;  // to be walked; the last is first, so that few are open
  std::deque<Item> queue_;         // files and others
  size_t active_ = 0;              // tasks that are under way; of them:
  size_t walking_ = 0;
  size_t copying_ = 0;
  size_t publishing_ = 0;
  size_t open_ = 0;  // directories with pending entries
  bool pumping_ = false;
  bool pump_again_ = false;
  bool full_ = false;  // the target has no room
  bool told_hidden_acls_ = false;
  bool told_hidden_xattrs_ = false;
  std::map<LinkKey, Links> links_;
  std::set<std::string> roots_;    // the identities of the targets
  std::set<std::string> sources_;  // and of the directories whose contents are copied
  OneShot<>* done_ = nullptr;
};

template <class Set>
Task<Result<void>> Copier::SetKept(const std::string& target, NewAttributes kept, Set set) {
  const bool owners = kept.owner || kept.group;
  const Result<void> all = co_await set(kept);
  if (all || !GoesOnWithoutOwners(target, all.error(), owners)) co_return all;
  kept.owner.reset();
  kept.group.reset();
  // The set-user-ID and set-group-ID bits belong to the owner and group.
  if (kept.mode) kept.mode = *kept.mode & 01777;
  if (!kept.mode && !kept.accessed && !kept.modified) co_return Result<void>();
  co_return co_await set(kept);
}

}  // namespace penstock::copying
