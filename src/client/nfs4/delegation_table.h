// The delegations that a client holds, and the attributes that it knows under them (RFC 8881 §10.4). The table does no
// I/O; delegations.h returns delegations to the server.
#pragma once

#include <array>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "client/mount.h"
#include "protocol/nfs4_types.h"

namespace penstock::client::v4 {

class OpenFile;

// The delegation of one file. While it lasts, no other client changes the file. If it is for writing, no other client
// opens it.
class Delegation {
 public:
  // Granted under the client id of `epoch` by an OPEN with the access `opened`.
  Delegation(const Handle& handle, const nfs4::stateid4& stateid, bool writes, uint64_t epoch, Access opened)
      : handle_(handle), stateid_(stateid), writes_(writes), epoch_(epoch), opened_(Bits(opened)) {}

  // This delegation has reclaimed `before`, after a restart of the server.
  void Continue(const Delegation& before);

  const Handle& handle() const { return handle_; }
  const nfs4::stateid4& stateid() const { return stateid_; }
  bool writes() const { return writes_; }
  uint64_t epoch() const { return epoch_; }

  // The number of the file system that the file is in, as far as it is known.
  std::optional<uint64_t> file_system() const { return file_system_; }
  void set_file_system(uint64_t number) { file_system_ = number; }

  // Whether the delegation covers opens and I/O with this access.
  bool Covers(Access access) const { return writes_ || access == Access::kRead; }
  // Whether the client may open the file without a call. The server must have granted this access before: the mount has
  // one user only, so no user gets access that the server would refuse (RFC 8881 §10.4).
  bool LetsOpen(Access access) const {
    return !returning_ && Covers(access) && (opened_ & Bits(access)) == Bits(access);
  }
  void HandleOpened(Access access) { opened_ |= Bits(access); }
  // After a change of permissions the server must decide on each open again.
  void HandlePermissionsChanged() { opened_ = 0; }

  // The open files that have no stateid except the delegation.
  void AddUser(OpenFile& user) { users_.insert(&user); }
  void RemoveUser(OpenFile& user) { users_.erase(&user); }
  const std::set<OpenFile*>& users() const { return users_; }

  // The client is returning the delegation and begins nothing new under it.
  bool returning() const { return returning_; }
  void HandleReturning() { returning_ = true; }
  // The client does not hold the delegation any more.
  bool gone() const { return gone_; }
  void HandleGone() { returning_ = gone_ = true; }

  // Returns the attributes of the file. They hold while the file is delegated and this client does not change it.
  // `names` is ChangeCounts::names(): nothing if a name has changed since Remember().
  std::optional<Attributes> AttributesAt(uint32_t names) const { return names == names_ ? attributes_ : std::nullopt; }
  void Remember(const Attributes& attributes, uint32_t names);
  // This client has read the file, which may have changed the time of the last access. The server recalls no delegation
  // for that.
  void HandleRead() { was_read_ = true; }
  // Whether it has since Remember().
  bool was_read() const { return was_read_; }
  // This client changes the file.
  void HandleChange();
  // This client writes the file up to `end`.
  void HandleWrite(uint64_t end);
  // This client sets the size of the file.
  void HandleSize(uint64_t size);

  // Whether Remember() has told the size of the file.
  bool knows_size() const { return first_change_.has_value(); }
  // The answer to CB_GETATTR (RFC 8881 §10.4.3), valid if knows_size(). The client caches no data, but a WRITE may
  // still be on its way when the server asks.
  uint64_t change() const { return change_ + (modified_ ? 1 : 0); }
  uint64_t size() const { return size_; }

 private:
  static uint8_t Bits(Access access) { return static_cast<uint8_t>(access); }

  const Handle handle_;
  const nfs4::stateid4 stateid_;
  const bool writes_;
  const uint64_t epoch_;
  uint8_t opened_;
  bool returning_ = false;
  bool gone_ = false;
  std::optional<uint64_t> file_system_;
  std::set<OpenFile*> users_;
  std::optional<Attributes> attributes_;
  uint32_t names_ = 0;
  bool was_read_ = false;
  std::optional<uint64_t> first_change_;
  uint64_t change_ = 0;
  uint64_t size_ = 0;
  bool modified_ = false;
};

// Counts this client's own changes of files (or what else is counted), to detect attributes in replies that are older
// than a change. Two files may share a count; then the client forgets attributes that it could keep.
class ChangeCounts {
 public:
  void Count(const Handle& file) { ++counts_[PlaceOf(file)]; }
  // An unknown file has lost a name.
  void CountName() { ++names_; }
  uint32_t names() const { return names_; }
  bool IsSame(const Handle& file, const ChangeCounts& before) const {
    return names_ == before.names_ && counts_[PlaceOf(file)] == before.counts_[PlaceOf(file)];
  }

 private:
  static constexpr size_t kPlaces = 64;
  static size_t PlaceOf(const Handle& file);

  std::array<uint32_t, kPlaces> counts_{};
  uint32_t names_ = 0;
};

class DelegationTable {
 public:
  using Pointer = std::shared_ptr<Delegation>;

  // Adds a delegation and returns the one that it replaces, or null.
  Pointer Add(Pointer delegation);
  // Returns the delegation of `file`, or null, and marks it as used.
  Pointer Find(const Handle& file);
  // The same without marking it.
  Pointer Peek(const Handle& file) const;
  // Ignores the seqid (RFC 8881 §8.2.2).
  Pointer Find(const nfs4::stateid4& stateid) const;
  // Does nothing if the table does not have `delegation`.
  void Remove(const Delegation& delegation);
  std::vector<Pointer> all() const { return {entries_.begin(), entries_.end()}; }
  size_t size() const { return entries_.size(); }

  // Returns the least recently used delegation without open files that the server has given under the client id of
  // `epoch` and that is not being returned, or null.
  Pointer LeastUsed(uint64_t epoch) const;

  enum class Kind : uint8_t { kRead, kWrite, kAny };
  // Returns the delegations of a kind that must go so that `keep` remain. Delegations without open files come before
  // the others, and less recently used ones come before more recently used ones. Does not count delegations that are
  // being returned, and those of another client id than that of `epoch`: the server does not have them any more.
  std::vector<Pointer> Surplus(size_t keep, Kind kind, uint64_t epoch) const;

 private:
  using Entries = std::list<Pointer>;

  Entries entries_;  // in the order of their last use
  std::map<Handle, Entries::iterator> by_file_;
};

}  // namespace penstock::client::v4
