// The delegations of a mount (RFC 8881 §10.4). Under a delegation the client opens a file and knows its attributes
// without a call. It returns delegations that the server recalls. Only from minor version 1 on: in minor version 0 the
// server has no callback address of the client.
//
// The client caches no data: it sends all writes at once. The server decides on locks, although a client with a write
// delegation could (RFC 8881 §10.4.2). After a restart of the server the client reclaims the delegations of open files;
// the others are gone.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>

#include "client/nfs4/compound_caller.h"
#include "client/nfs4/delegation_table.h"
#include "client/nfs4/revoked_state.h"
#include "protocol/nfs4_callback.h"

namespace penstock::client::v4 {

// Belongs to the loop of `caller`.
class Delegations {
 public:
  using Pointer = DelegationTable::Pointer;

  // `caller` and `revoked` outlive this object. Keeps at most `most` delegations besides those of open files and
  // returns the least recently used ones first.
  Delegations(CompoundCaller& caller, RevokedState& revoked, size_t most)
      : caller_(caller),
        revoked_(revoked),
        most_(caller.dialect().has_sessions() ? most : 0),
        wanted_(most_ > 0 ? Wanted::kToo : Wanted::kNone) {}

  // ---- OPEN ----

  enum class Wanted {
    kNone,     // only an open
    kToo,      // a delegation with the open
    kInstead,  // the same, or a delegation without an open, which needs no CLOSE (RFC 9754 §4)
  };
  // The server understands Wanted::kInstead.
  void HandleOpensOrDelegates() {
    if (most_ > 0) wanted_ = Wanted::kInstead;
  }

  // Exists while an OPEN is under way that may grant a delegation. A recall that overtakes its reply is delayed
  // (RFC 8881 §2.10.6.3).
  class Asking {
   public:
    explicit Asking(Delegations& delegations)
        : delegations_(delegations), before_(delegations.counts_), recalls_before_(delegations.recalls_of_any_) {
      ++delegations_.asking_;
    }
    ~Asking() {
      if (--delegations_.asking_ == 0) delegations_.kept_ = {};
    }
    Asking(const Asking&) = delete;
    Asking& operator=(const Asking&) = delete;
    Wanted wanted() const { return delegations_.wanted_; }

   private:
    friend Delegations;
    Delegations& delegations_;
    const ChangeCounts before_;
    const uint64_t recalls_before_;
  };
  // The OPEN succeeded under the client id of `epoch`. GETATTR behind it in the same COMPOUND gave the attributes. If
  // `delegated_instead` is not null, this open file has no open but the delegation.
  void HandleOpened(const Asking& asking, const Handle& file, Access access, const nfs4::open_delegation4& given,
                    uint64_t epoch, const Attributes& attributes, OpenFile* delegated_instead);
  // Returns the delegation that the client had before the server's restart, to reclaim it with an open of the file (RFC
  // 8881 §10.2.1), or null.
  Pointer ForReclaim(const Handle& file) const;
  // All open files of an earlier client id are reclaimed or given up: the delegations that it still has are gone.
  void HandleRecovered();
  // The same as HandleOpened() for an OPEN that has reclaimed the file, and has claimed `claimed`, which may be null.
  // If the server gives a delegation that was not claimed, the client returns it at once: the server cannot always
  // recall it, and other calls wait for it.
  void HandleReclaimed(const Pointer& claimed, const Handle& file, Access access, const nfs4::open_delegation4& given,
                       uint64_t epoch);
  // Returns a delegation under which the client may open the file, or null.
  Pointer ForOpen(const Handle& file, Access access);
  // Returns the delegation whose stateid I/O should use (RFC 8881 §8.2.5), or null.
  Pointer ForIo(const Handle& file, Access access);

  // ---- attributes ----

  // Returns nothing if the client must ask the server.
  std::optional<Attributes> AttributesOf(const Handle& file);
  // The same for a caller to whom the time of the last access may be older.
  std::optional<Attributes> AttributesAtOpen(const Handle& file);
  // Made before a request is sent whose reply has attributes.
  class Query {
   public:
    explicit Query(const Delegations& delegations) : changes_(delegations.counts_), reads_(delegations.reads_) {}

   private:
    friend Delegations;
    const ChangeCounts changes_;
    const ChangeCounts reads_;
  };
  // Does nothing if the file was not delegated when the query was made.
  void Remember(const Query& query, const Handle& file, const Attributes& attributes);
  // This client has read data of the file. Call it after the reply.
  void HandleRead(const Handle& file);
  // This client changes the file. Call it before the request is sent and after its reply.
  void HandleChange(const Handle& file);
  void HandleWrite(const Handle& file, uint64_t end);
  void HandleNewAttributes(const Handle& file, const NewAttributes& attributes);
  // From now on the server decides who may open the file.
  void HandlePermissionsChanged(const Handle& file);
  // The same for an unknown file that loses a name.
  void HandleNameChange() { counts_.CountName(); }

  // ---- recalls and revocations by the server ----

  nfs4::nfsstat4 HandleRecall(const nfs4::CB_RECALL4args& recall);
  // Returns the write delegation of the file for CB_GETATTR, or null.
  Pointer ForGetAttributes(const Handle& file);
  void HandleRecallAny(const nfs4::CB_RECALL_ANY4args& recall);
  // The server does not honor `stateid` any more. Returns false if it is not the stateid of a delegation.
  bool HandleLost(const nfs4::stateid4& stateid);
  // The status flags of SEQUENCE say whether the server has revoked some state. While they do, the client relies on no
  // delegation.
  void HandleRevoked(bool some) { some_revoked_ = some; }
  std::vector<nfs4::stateid4> stateids() const;
  // The file system has moved to another server. If it comes back, the server does not know its delegations.
  void HandleMoved(uint64_t file_system);

  // Returns all delegations in the background. The caller's Close() waits for that. True: there is none.
  bool GiveUpAll();

 private:
  // Returns the delegation also while it is being returned. Null if the client id has changed since the grant: then
  // only ForReclaim() knows the delegation.
  Pointer Held(const Handle& file);
  // Returns it also then: the one that reclaims it continues with what the client has changed.
  Pointer ForChange(const Handle& file) { return table_.Find(file); }
  // Returns the delegation under which the client may know attributes, or null.
  Pointer ForAttributes(const Handle& file);
  // Whether the server cannot have granted a conflicting access to another client (RFC 8881 §8.3).
  bool AreCertain() const { return !some_revoked_ && caller_.holds_lease(); }
  void Drop(Delegation& delegation);
  // A write delegation is useless without the size, which CB_GETATTR asks for. Returns the delegation if the client
  // does not find it out.
  Task<void> Learn(Pointer delegation);
  void ReturnSurplus();
  void StartReturn(const Pointer& delegation);
  Task<void> Return(Pointer delegation);

  CompoundCaller& caller_;
  RevokedState& revoked_;
  const size_t most_;
  Wanted wanted_;
  size_t asking_ = 0;
  uint64_t recalls_of_any_ = 0;  // CB_RECALL_ANY calls so far
  // The most delegations that CB_RECALL_ANY lets the client keep, for each DelegationTable::Kind. Kept while an OPEN is
  // under way, because its reply may bring a delegation that the server had counted.
  std::array<std::optional<uint32_t>, 3> kept_;
  DelegationTable table_;
  ChangeCounts counts_;  // of changes by this client, and of grants: earlier attributes may be older than a grant
  ChangeCounts reads_;   // of reads by this client
  bool some_revoked_ = false;
};

}  // namespace penstock::client::v4
