// A dialect of NFSv4: the protocol that one COMPOUND speaks. A dialect says which operations and features exist, which
// errors stand for which problem, where operations may stand, and which layer recognises a repeated request. The code
// asks the dialect for these facts and never compares minor versions: two dialects may share one number on the wire.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "base/strong.h"
#include "nfs/v4/dialect/operation.h"
#include "protocol/nfs4_types.h"

namespace penstock::nfs::v4 {

// The field minorversion of COMPOUND and CB_COMPOUND.
struct MinorVersionTag;
using MinorVersion = Strong<MinorVersionTag, uint32_t>;

// The document that defines a dialect's operations, attributes and values. Each revision includes the features of the
// revisions before it.
enum class Revision : uint8_t {
  kRfc7530,  // version 4.0, and the sessions of 2004, which change no operation
  kRfc8881,  // version 4.1
  kRfc7862,  // version 4.2, with RFC 8275, RFC 8276 and RFC 9754
};

// Where operations may stand in a COMPOUND.
enum class OrderingRule : uint8_t {
  kAnyOrder,
  kOpenerFirst,  // an operation that opens the request and names its session; see Placement
};

// The sessions that a dialect has.
enum class SessionKind : uint8_t {
  kNone,
  kSlots,  // RFC 8881 §2.10: requests name their session and a slot of it
  kBound,  // draft-talpey-nfsv4-rdma-sess-01: connections are bound to one session, and requests name a stream of it
};

// Which layer recognizes a repeated request.
enum class DuplicatePolicy : uint8_t {
  kReplyCache,  // the duplicate request cache of the RPC layer
  kSession,     // the session of the request; the RPC layer remembers nothing
};

// The errors in which dialects differ.
struct ErrorWords {
  nfs4::nfsstat4 reply_too_big;          // the result does not fit in the reply
  nfs4::nfsstat4 reply_too_big_to_keep;  // the result does not fit in a reply that the session keeps
  nfs4::nfsstat4 opener_misplaced;       // the opener is not the first operation
  nfs4::nfsstat4 not_alone;              // an operation that must be the only one has company
  nfs4::nfsstat4 without_opener;         // the request has not been opened
  nfs4::nfsstat4 too_many_operations;    // in a COMPOUND without a session
  nfs4::nfsstat4 no_saved_filehandle;    // RESTOREFH
  nfs4::nfsstat4 not_a_symlink;          // READLINK of another object
  nfs4::nfsstat4 symlink_has_no_data;    // READ, WRITE, COMMIT, LOCKT
  nfs4::nfsstat4 special_has_no_data;    // the same operations, for a device, socket or FIFO
  nfs4::nfsstat4 special_cannot_be_opened;
  nfs4::nfsstat4 symlink_is_no_directory;  // READDIR
  nfs4::nfsstat4 no_room;                  // for an open or a lock; the client tries again later
  nfs4::nfsstat4 no_room_until_close;      // for an open; the client must close a file first
  nfs4::nfsstat4 stateid_of_earlier_run;   // the server that gave the stateid has restarted
  nfs4::nfsstat4 client_is_gone;           // the client was forgotten while OPEN was executed
  nfs4::nfsstat4 wrong_principal;          // state that another principal made
};

struct DialectFacts {
  std::string_view name;
  MinorVersion minor_version;
  Revision revision;
  OrderingRule ordering;
  SessionKind sessions;
  DuplicatePolicy duplicates;
  bool owner_seqids;
  // Clients of dialects with the same letter have one space of owner names (OwnerKey()).
  char owner_space;
  ErrorWords errors;
};

// Facts of the three dialects of the RFCs, and of the sessions of 2004. The tables of operations are in
// operations/operation_table.cc.
extern const DialectFacts kFactsOfRfc7530;
extern const DialectFacts kFactsOfRfc8881;
extern const DialectFacts kFactsOfRfc7862;
extern const DialectFacts kFactsOfSess01;

// Dialects never change and outlive everything. Any thread may use them.
class Dialect {
 public:
  // `facts` and the operations outlive the dialect. `operations` are in the order of their numbers, without gaps, and
  // so are `more`, whose numbers lie elsewhere.
  constexpr Dialect(const DialectFacts& facts, std::span<const Operation> operations,
                    std::span<const Operation> more = {})
      : facts_(facts), operations_(operations), more_(more) {}
  Dialect(const Dialect&) = delete;
  Dialect& operator=(const Dialect&) = delete;

  std::string_view name() const { return facts_.name; }
  // The number on the wire, in both directions.
  MinorVersion minor_version() const { return facts_.minor_version; }
  Revision revision() const { return facts_.revision; }
  OrderingRule ordering() const { return facts_.ordering; }
  DuplicatePolicy duplicate_policy() const { return facts_.duplicates; }
  const ErrorWords& errors() const { return facts_.errors; }

  // Returns null if the operation does not exist in this dialect: NFS4ERR_OP_ILLEGAL. See also Operation::supported().
  const Operation* Find(nfs4::nfs_opnum4 number) const {
    const Operation* const found = FindIn(operations_, number);
    return found ? found : FindIn(more_, number);
  }

  // Whether the dialect itself has added this operation, with a number that no other dialect has.
  bool Adds(nfs4::nfs_opnum4 number) const { return FindIn(more_, number) != nullptr; }

  // A request belongs to a session, which names the client and renews its lease. Without sessions, any client may
  // present any stateid, and the operations renew the lease.
  bool has_sessions() const { return facts_.sessions != SessionKind::kNone; }
  SessionKind session_kind() const { return facts_.sessions; }
  // Clients tell when they have reclaimed everything (RECLAIM_COMPLETE, RFC 8881 §18.51).
  bool has_reclaim_complete() const { return since(Revision::kRfc8881); }
  char owner_space() const { return facts_.owner_space; }
  // Open-owners and lock-owners number their requests (RFC 7530 §9.1.7), and OPEN_CONFIRM confirms an open-owner.
  bool counts_owner_seqids() const { return facts_.owner_seqids; }

  // A COMPOUND has a current stateid (RFC 8881 §16.2.3.1.2).
  bool has_current_stateid() const { return since(Revision::kRfc8881); }
  // share_access says which delegation the client wants (RFC 8881 §18.16.3).
  bool has_delegation_wants() const { return since(Revision::kRfc8881); }
  // OPEN has the claims by filehandle and EXCLUSIVE4_1 (RFC 8881 §18.16.1).
  bool has_open_by_filehandle() const { return since(Revision::kRfc8881); }
  // OPEN says whether an open file outlives its last name (OPEN4_RESULT_PRESERVE_UNLINKED).
  bool reports_preserved_files() const { return since(Revision::kRfc8881); }
  // The server tells a client when it may try a denied lock again (CB_NOTIFY_LOCK).
  bool has_lock_notices() const { return since(Revision::kRfc8881); }
  // The server may ask a client to choose the delegations that it returns (CB_RECALL_ANY).
  bool has_recall_any() const { return since(Revision::kRfc8881); }
  // A stateid's seqid of zero means the latest one (RFC 8881 §8.2.2).
  bool zero_seqid_is_latest() const { return since(Revision::kRfc8881); }
  // FREE_STATEID: a client acknowledges the loss of state (RFC 8881 §18.38).
  bool has_free_stateid() const { return since(Revision::kRfc8881); }
  // SECINFO leaves no current filehandle (RFC 8881 §2.6.3.1.1.8).
  bool secinfo_consumes_filehandle() const { return since(Revision::kRfc8881); }
  // RFC 8276
  bool has_extended_attributes() const { return since(Revision::kRfc7862); }
  // RFC 9754: the holder of a delegation may be the authority for the file's times, and OPEN may give a delegation
  // without an open.
  bool has_open_arguments() const { return since(Revision::kRfc7862); }
  // COPY, also from other servers.
  bool has_copy() const { return since(Revision::kRfc7862); }
  // EXCHANGE_ID takes EXCHGID4_FLAG_SUPP_FENCE_OPS.
  bool has_fence_operations() const { return since(Revision::kRfc7862); }

 private:
  bool since(Revision revision) const { return facts_.revision >= revision; }
  static const Operation* FindIn(std::span<const Operation> operations, nfs4::nfs_opnum4 number) {
    if (operations.empty()) return nullptr;
    const auto index = static_cast<size_t>(number) - static_cast<size_t>(operations.front().number);
    return index < operations.size() ? &operations[index] : nullptr;
  }

  const DialectFacts& facts_;
  const std::span<const Operation> operations_;
  const std::span<const Operation> more_;
};

}  // namespace penstock::nfs::v4
