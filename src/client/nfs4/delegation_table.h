// The delegations that a client holds, and what it knows of their files: RFC 8881 §10.4. A table without I/O.
// delegations.h gives them back.
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

// A file that the server has delegated: nobody else changes it, nor, where the delegation is for writing, opens it.
class Delegation {
 public:
  // Granted under the client id of `epoch`, by an OPEN for `opened`.
  Delegation(const Handle& handle, const nfs4::stateid4& stateid, bool writes, uint64_t epoch, Access opened)
      : handle_(handle), stateid_(stateid), writes_(writes), epoch_(epoch), opened_(Bits(opened)) {}

  const Handle& handle() const { return handle_; }
  const nfs4::stateid4& stateid() const { return stateid_; }
  bool writes() const { return writes_; }
  uint64_t epoch() const { return epoch_; }

  // Whether opens and I/O of that kind are delegated.
  bool Covers(Access access) const { return writes_ || access == Access::kRead; }
  // Whether a file may be opened without a word to the server. It has let us open it in this way before, and we have one
  // user only: nobody is let in whom it would not let in (RFC 8881 §10.4).
  bool LetsOpen(Access access) const {
    return !returning_ && Covers(access) && (opened_ & Bits(access)) == Bits(access);
  }
  void HandleOpened(Access access) { opened_ |= Bits(access); }
  // Who may open it is another question now.
  void HandlePermissionsChanged() { opened_ = 0; }

  // Those who are open under it alone.
  void AddUser(OpenFile& user) { users_.insert(&user); }
  void RemoveUser(OpenFile& user) { users_.erase(&user); }
  const std::set<OpenFile*>& users() const { return users_; }

  // It is on its way back: nothing new is begun under it.
  bool returning() const { return returning_; }
  void HandleReturning() { returning_ = true; }
  // It is not ours any more.
  bool gone() const { return gone_; }
  void HandleGone() { returning_ = gone_ = true; }

  // What the file's attributes are, for as long as it is delegated and this client does not change it. `names`: see
  // ChangeCounts.
  std::optional<Attributes> AttributesAt(uint32_t names) const { return names == names_ ? attributes_ : std::nullopt; }
  void Remember(const Attributes& attributes, uint32_t names);
  // This client changes it.
  void HandleChange();
  // ... and makes it that long, where it was shorter.
  void HandleWrite(uint64_t end);
  void HandleSize(uint64_t size);

  // For CB_GETATTR (RFC 8881 §10.4.3), once something has been remembered. All that is written is at the server already;
  // but it may have been asked before it is there.
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
  std::set<OpenFile*> users_;
  std::optional<Attributes> attributes_;
  uint32_t names_ = 0;
  std::optional<uint64_t> first_change_;
  uint64_t change_ = 0;
  uint64_t size_ = 0;
  bool modified_ = false;
};

// What this client has changed, of which files: attributes that were on their way meanwhile may be older. Files may be
// taken for each other: then some are not remembered that could be.
class ChangeCounts {
 public:
  void Count(const Handle& file) { ++counts_[PlaceOf(file)]; }
  // Some file, nobody knows which, has lost a name.
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

  // The one that it takes the place of, if any.
  Pointer Add(Pointer delegation);
  // The file's, if any, which is used now.
  Pointer Find(const Handle& file);
  // The seqid does not matter (RFC 8881 §8.2.2).
  Pointer Find(const nfs4::stateid4& stateid) const;
  // Where it is there still.
  void Remove(const Delegation& delegation);
  std::vector<Pointer> all() const { return {entries_.begin(), entries_.end()}; }
  size_t size() const { return entries_.size(); }

  enum class Kind : uint8_t { kRead, kWrite, kAny };
  // Those of a kind that are to go so that `keep` remain: first those that no file is open under, each time the one first
  // that was not used for the longest time. What is on its way back is not counted.
  std::vector<Pointer> Surplus(size_t keep, Kind kind) const;

 private:
  using Entries = std::list<Pointer>;

  Entries entries_;  // in the order of their last use
  std::map<Handle, Entries::iterator> by_file_;
};

}  // namespace penstock::client::v4
