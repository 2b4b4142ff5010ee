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
  kRfc7530,  // version 4.0
  kRfc8881,  // version 4.1
  kRfc7862,  // version 4.2, with RFC 8275 and RFC 8276
};

// Where operations may stand in a COMPOUND.
enum class OrderingRule : uint8_t {
  kAnyOrder,
  kOpenerFirst,  // an operation that opens the request and names its session; see Placement
};

// Which layer recognizes a repeated request.
enum class DuplicatePolicy : uint8_t {
  kReplyCache,  // the duplicate request cache of the RPC layer
  kSession,     // the session of the request; the RPC layer remembers nothing
};

// The errors in which dialects differ.
struct ErrorWords {
  nfs4::nfsstat4 reply_too_big;        // the result does not fit in the reply
  nfs4::nfsstat4 too_many_operations;  // in a COMPOUND without a session
  nfs4::nfsstat4 no_saved_filehandle;  // RESTOREFH
  nfs4::nfsstat4 not_a_symlink;        // READLINK of another object
  nfs4::nfsstat4 symlink_has_no_data;  // READ, WRITE, COMMIT, LOCKT
  nfs4::nfsstat4 special_has_no_data;  // the same operations, for a device, socket or FIFO
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
  DuplicatePolicy duplicates;
  bool owner_seqids;
  ErrorWords errors;
};

// Facts of the three dialects of the RFCs. The tables of operations are in operations/operation_table.cc.
extern const DialectFacts kFactsOfRfc7530;
extern const DialectFacts kFactsOfRfc8881;
extern const DialectFacts kFactsOfRfc7862;

// Dialects never change and outlive everything. Any thread may use them.
class Dialect {
 public:
  // `facts` and `operations` outlive the dialect. `operations` are in the order of their numbers, without gaps.
  constexpr Dialect(const DialectFacts& facts, std::span<const Operation> operations)
      : facts_(facts), operations_(operations) {}
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
    if (operations_.empty()) return nullptr;
    const auto index = static_cast<size_t>(number) - static_cast<size_t>(operations_.front().number);
    return index < operations_.size() ? &operations_[index] : nullptr;
  }

  // A request belongs to a session, which names the client and renews its lease. Without sessions, any client may
  // present any stateid, and the operations renew the lease.
  bool has_sessions() const { return facts_.ordering == OrderingRule::kOpenerFirst; }
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
  // A stateid's seqid of zero means the latest one (RFC 8881 §8.2.2).
  bool zero_seqid_is_latest() const { return since(Revision::kRfc8881); }
  // FREE_STATEID: a client acknowledges the loss of state (RFC 8881 §18.38).
  bool has_free_stateid() const { return since(Revision::kRfc8881); }
  // SECINFO leaves no current filehandle (RFC 8881 §2.6.3.1.1.8).
  bool secinfo_consumes_filehandle() const { return since(Revision::kRfc8881); }
  // RFC 8276
  bool has_extended_attributes() const { return since(Revision::kRfc7862); }
  // EXCHANGE_ID takes EXCHGID4_FLAG_SUPP_FENCE_OPS.
  bool has_fence_operations() const { return since(Revision::kRfc7862); }

 private:
  bool since(Revision revision) const { return facts_.revision >= revision; }

  const DialectFacts& facts_;
  const std::span<const Operation> operations_;
};

}  // namespace penstock::nfs::v4
