// The delegations of a mount: files are opened under them and attributes known by them without a word to the server, and
// they are given back when it wants them: RFC 8881 §10.4. From minor version 1 on: in minor version 0 the server has not
// been told where it could call.
//
// Data is not cached: what is written is sent. Locks are the server's (a client may, but need not, decide on them under a
// delegation for writing: RFC 8881 §10.4.2). After a restart of the server delegations are not claimed again, but what is
// open under them is.
#pragma once

#include <memory>
#include <optional>

#include "client/nfs4/compound_caller.h"
#include "client/nfs4/delegation_table.h"
#include "protocol/nfs4_callback.h"

namespace penstock::client::v4 {

// Belongs to the loop of `caller`.
class Delegations {
 public:
  using Pointer = DelegationTable::Pointer;

  // `caller` outlives it. `most`: beyond files that are open; then those go back that were not used for the longest time.
  Delegations(CompoundCaller& caller, size_t most) : caller_(caller), most_(caller.minor_version() > 0 ? most : 0) {}

  // ---- OPEN ----

  // While an OPEN is under way that may bring one, a recall that overtakes its reply is put off (RFC 8881 §2.10.6.3).
  class Asking {
   public:
    explicit Asking(Delegations& delegations) : delegations_(delegations), before_(delegations.counts_) {
      ++delegations_.asking_;
    }
    ~Asking() { --delegations_.asking_; }
    Asking(const Asking&) = delete;
    Asking& operator=(const Asking&) = delete;
    bool wanted() const { return delegations_.most_ > 0; }

   private:
    friend Delegations;
    Delegations& delegations_;
    const ChangeCounts before_;
  };
  // It succeeded, under the client id of `epoch`; the attributes were asked for after it in its COMPOUND.
  void HandleOpened(const Asking& asking, const Handle& file, Access access, const nfs4::open_delegation4& given,
                    uint64_t epoch, const Attributes& attributes);
  // One that lets the file be opened; nothing: the server is to be asked.
  Pointer ForOpen(const Handle& file, Access access);
  // One whose stateid I/O should name (RFC 8881 §8.2.5).
  Pointer ForIo(const Handle& file, Access access);

  // ---- attributes ----

  // Nothing: the server is to be asked.
  std::optional<Attributes> AttributesOf(const Handle& file);
  // A GETATTR, from before it is sent.
  class Query {
   public:
    Query(Delegations& delegations, const Handle& file)
        : delegation_(delegations.Held(file)), before_(delegations.counts_) {}

   private:
    friend Delegations;
    const Pointer delegation_;
    const ChangeCounts before_;
  };
  void Remember(const Query& query, const Attributes& attributes);
  // This client changes the file: to be said before the request is sent and after it has been answered.
  void HandleChange(const Handle& file);
  void HandleWrite(const Handle& file, uint64_t end);
  void HandleNewAttributes(const Handle& file, const NewAttributes& attributes);
  // The same of a file that is not known, which loses a name.
  void HandleNameChange() { counts_.CountName(); }

  // ---- what the server says ----

  nfs4::nfsstat4 HandleRecall(const nfs4::CB_RECALL4args& recall);
  // Nothing: none for writing.
  Pointer ForGetAttributes(const Handle& file);
  void HandleRecallAny(const nfs4::CB_RECALL_ANY4args& recall);
  // It does not honour that stateid any more. False: it is none of a delegation.
  bool HandleLost(const nfs4::stateid4& stateid);
  // What SEQUENCE says: whether some state has been revoked. While it says so no delegation is relied upon.
  void HandleRevoked(bool some);

  // They go back in the background, which the caller's Close() waits for.
  void ReturnAll();

 private:
  // Whether or not it is on its way back; nothing where the client id has changed since.
  Pointer Held(const Handle& file);
  // Whether none can have been given to somebody else (RFC 8881 §8.3).
  bool AreCertain() const { return !some_revoked_ && caller_.holds_lease(); }
  void Drop(Delegation& delegation);
  void StartReturn(const Pointer& delegation);
  Task<void> Return(Pointer delegation);
  // The server may forget that it was revoked.
  Task<void> Free(nfs4::stateid4 stateid);
  Task<void> FindRevoked();
  Task<Result<void>> TestSome(std::vector<Pointer> some);

  CompoundCaller& caller_;
  const size_t most_;
  size_t asking_ = 0;
  DelegationTable table_;
  ChangeCounts counts_;
  bool some_revoked_ = false;
  bool testing_ = false;
  TimePoint test_again_{};
};

}  // namespace penstock::client::v4
