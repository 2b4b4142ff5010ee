// The dialects and their tables of operations. Each row binds the number of an operation to its function.
#include <algorithm>
#include <array>
#include <concepts>
#include <span>
#include <type_traits>

#include "nfs/v4/dialect/dialect.h"
#include "nfs/v4/engine/compound_head.h"
#include "nfs/v4/operations/operations.h"
#include "xdr/decode.h"
#include "xdr/encode.h"

namespace penstock::nfs::v4 {

using namespace nfs4;  // NOLINT: the protocol's own names, RFC 8881

namespace {

// Room for the parts of a result whose type has no largest size: bitmaps of attributes, and the access control entry of
// a delegation.
constexpr size_t kOpenPart = 128;

// The status of a result is the discriminant of a union or the first member of a struct.
template <class Results>
nfsstat4 StatusOfResult(const Results& results) {
  if constexpr (xdr::UnionType<Results>) {
    return results.discriminant();
  } else {
    nfsstat4 status = NFS4_OK;
    Results::Members([&]<class Member>(std::string_view, Member Results::* member) {
      if constexpr (std::same_as<Member, nfsstat4>) status = results.*member;
      return false;
    });
    return status;
  }
}

template <class Results>
void EncodeFailure(xdr::Encoder& to, nfsstat4 status) {
  if constexpr (xdr::UnionType<Results>) {
    xdr::Encode(to, Results(status));
  } else {
    Results failed{};
    Results::Members([&]<class Member>(std::string_view, Member Results::* member) {
      if constexpr (std::same_as<Member, nfsstat4>) failed.*member = status;
      return false;
    });
    xdr::Encode(to, failed);
  }
}
// For results that consist of only a status if the operation fails.
void EncodeStatus(xdr::Encoder& to, nfsstat4 status) { xdr::Encode(to, status); }

template <class Arguments>
bool DecodeArguments(xdr::Decoder& from, Arguments& arguments) {
  if constexpr (std::same_as<Arguments, AttributeSet>) {
    return arguments.Decode(from);
  } else {
    return xdr::Decode(from, arguments);
  }
}

// Runs an operation function. There is one specialization for each signature in operations.h.
template <auto kOperation, class Shape = decltype(kOperation)>
struct Runner;

template <auto kOperation, class R>
struct Runner<kOperation, R (*)(Compound&)> {
  using Results = R;
  static nfsstat4 Now(Compound& compound, xdr::Decoder&, xdr::Encoder& to) {
    const Results results = kOperation(compound);
    xdr::Encode(to, results);
    return StatusOfResult(results);
  }
};

template <auto kOperation, class R, class Arguments>
struct Runner<kOperation, R (*)(Compound&, const Arguments&)> {
  using Results = R;
  static nfsstat4 Now(Compound& compound, xdr::Decoder& from, xdr::Encoder& to) {
    Arguments arguments{};
    if (!DecodeArguments(from, arguments)) {
      EncodeFailure<Results>(to, NFS4ERR_BADXDR);
      return NFS4ERR_BADXDR;
    }
    const Results results = kOperation(compound, arguments);
    xdr::Encode(to, results);
    return StatusOfResult(results);
  }
};

template <auto kOperation, class R>
struct Runner<kOperation, Task<R> (*)(Compound&)> {
  using Results = R;
  static Task<nfsstat4> Later(Compound& compound, xdr::Decoder&, xdr::Encoder& to) {
    const Results results = co_await kOperation(compound);
    xdr::Encode(to, results);
    co_return StatusOfResult(results);
  }
};

template <auto kOperation, class R, class Arguments>
struct Runner<kOperation, Task<R> (*)(Compound&, const Arguments&)> {
  using Results = R;
  static Task<nfsstat4> Later(Compound& compound, xdr::Decoder& from, xdr::Encoder& to) {
    Arguments arguments{};
    if (!DecodeArguments(from, arguments)) {
      EncodeFailure<Results>(to, NFS4ERR_BADXDR);
      co_return NFS4ERR_BADXDR;
    }
    const Results results = co_await kOperation(compound, arguments);
    xdr::Encode(to, results);
    co_return StatusOfResult(results);
  }
};

// For functions that write their results themselves.
template <auto kOperation, class Arguments>
struct Runner<kOperation, Task<nfsstat4> (*)(Compound&, const Arguments&, xdr::Encoder&)> {
  static Task<nfsstat4> Later(Compound& compound, xdr::Decoder& from, xdr::Encoder& to) {
    Arguments arguments{};
    if (!DecodeArguments(from, arguments)) {
      EncodeStatus(to, NFS4ERR_BADXDR);
      co_return NFS4ERR_BADXDR;
    }
    co_return co_await kOperation(compound, arguments, to);
  }
};

struct Traits {
  Placement placement = Placement::kInRequest;
  bool current = false;
  bool saved = false;
  bool changes = false;
  bool lasting = false;
  bool gives_up = false;
};

template <auto kOperation>
constexpr Operation Row(nfs_opnum4 number, const Traits& traits) {
  using R = Runner<kOperation>;
  Operation row{.number = number,
                .placement = traits.placement,
                .needs_current = traits.current,
                .needs_saved = traits.saved,
                .changes = traits.changes,
                .lasting = traits.lasting,
                .gives_up = traits.gives_up};
  if constexpr (requires { &R::Now; }) {
    row.now = &R::Now;
  } else {
    row.task = &R::Later;
  }
  if constexpr (requires { typename R::Results; }) {
    row.max_result = xdr::MaxSize<typename R::Results>() + (xdr::kExtent<typename R::Results>.open ? kOpenPart : 0);
    row.fail = &EncodeFailure<typename R::Results>;
  } else {
    row.fail = &EncodeStatus;
  }
  return row;
}

// LOCK without its result for a denied lock, which may be long: such a LOCK has changed nothing, so its result may
// still be replaced.
constexpr Operation LockRow(const Traits& traits) {
  Operation row = Row<&Lock>(OP_LOCK, traits);
  row.max_result = xdr::MaxSize<nfsstat4>() + xdr::MaxSize<LOCK4resok>();
  return row;
}

// PUTFH, which waits for the file system only if no operation follows.
constexpr Operation PutFileHandleRow(const Traits& traits) {
  Operation row = Row<&PutFileHandle>(OP_PUTFH, traits);
  row.task = &Runner<&PutLastFileHandle>::Later;
  return row;
}

// An operation without a function: the opener, or an operation that the server does not support. Its failures are a
// status alone.
constexpr Operation Bare(nfs_opnum4 number, Placement placement = Placement::kInRequest) {
  return {.number = number, .placement = placement, .fail = &EncodeStatus};
}

constexpr Traits kPlain{};
constexpr Traits kChanges{.changes = true};
constexpr Traits kObject{.current = true};
constexpr Traits kObjectChanges{.current = true, .changes = true};
constexpr Traits kGivesUp{.current = true, .changes = true, .gives_up = true};
constexpr Traits kObjectLasts{.current = true, .changes = true, .lasting = true};
constexpr Traits kObjectsLast{.current = true, .saved = true, .changes = true, .lasting = true};
constexpr Traits kAlsoAlone{.placement = Placement::kAlsoAlone};
constexpr Traits kAlsoAloneChanges{.placement = Placement::kAlsoAlone, .changes = true};

// The operations of RFC 7530. If the reply cache recognizes the duplicates of a dialect, it keeps replies to the
// operations with `changes`. A repeated WRITE puts the same octets to the same place; the reply cache has a quota of
// its own for WRITEs.
constexpr Operation kRowsOfRfc7530[] = {
    Row<&Access>(OP_ACCESS, kObject),
    Row<&Close>(OP_CLOSE, kGivesUp),
    Row<&Commit>(OP_COMMIT, kObject),
    Row<&Create>(OP_CREATE, kObjectLasts),
    Row<&PurgeDelegations>(OP_DELEGPURGE, kChanges),
    Row<&ReturnDelegation>(OP_DELEGRETURN, kGivesUp),
    Row<&GetAttributes>(OP_GETATTR, kObject),
    Row<&GetFileHandle>(OP_GETFH, kObject),
    Row<&Link>(OP_LINK, kObjectsLast),
    LockRow(kObjectChanges),
    Row<&TestLock>(OP_LOCKT, kObject),
    Row<&Unlock>(OP_LOCKU, kGivesUp),
    Row<&Lookup>(OP_LOOKUP, kObject),
    Row<&LookupParent>(OP_LOOKUPP, kObject),
    Row<&NotVerify>(OP_NVERIFY, kObject),
    Row<&Open>(OP_OPEN, kObjectChanges),
    Row<&OpenAttributes>(OP_OPENATTR, kObject),
    Row<&ConfirmOpen>(OP_OPEN_CONFIRM, kObjectChanges),
    Row<&DowngradeOpen>(OP_OPEN_DOWNGRADE, kGivesUp),
    PutFileHandleRow(kPlain),
    Row<&PutPublicFileHandle>(OP_PUTPUBFH, kPlain),
    Row<&PutRootFileHandle>(OP_PUTROOTFH, kPlain),
    Row<&Read>(OP_READ, kObject),
    Row<&ReadDirectory>(OP_READDIR, kObject),
    Row<&ReadLink>(OP_READLINK, kObject),
    Row<&Remove>(OP_REMOVE, kObjectLasts),
    Row<&Rename>(OP_RENAME, kObjectsLast),
    Row<&Renew>(OP_RENEW, kPlain),
    Row<&RestoreFileHandle>(OP_RESTOREFH, kPlain),
    Row<&SaveFileHandle>(OP_SAVEFH, kObject),
    Row<&SecurityInformation>(OP_SECINFO, kObject),
    Row<&SetAttributes>(OP_SETATTR, kObjectLasts),
    Row<&SetClientId>(OP_SETCLIENTID, kChanges),
    Row<&ConfirmClientId>(OP_SETCLIENTID_CONFIRM, kChanges),
    Row<&Verify>(OP_VERIFY, kObject),
    Row<&Write>(OP_WRITE, kObject),
    Row<&ReleaseLockOwner>(OP_RELEASE_LOCKOWNER, kChanges),
};

// The operations of RFC 7530 that must not be implemented from RFC 8881 on: NFS4ERR_NOTSUPP (RFC 8881 §2.7, §17).
constexpr Operation kRemovedByRfc8881[] = {
    Bare(OP_OPEN_CONFIRM),      Bare(OP_RENEW), Bare(OP_SETCLIENTID), Bare(OP_SETCLIENTID_CONFIRM),
    Bare(OP_RELEASE_LOCKOWNER),
};

constexpr Operation kAddedByRfc8881[] = {
    Row<&ControlBackChannel>(OP_BACKCHANNEL_CTL, kChanges),
    Row<&BindConnection>(OP_BIND_CONN_TO_SESSION, {.placement = Placement::kOnlyAlone}),
    Row<&ExchangeId>(OP_EXCHANGE_ID, kAlsoAlone),
    Row<&CreateSession>(OP_CREATE_SESSION, kAlsoAloneChanges),
    Row<&DestroySession>(OP_DESTROY_SESSION, kAlsoAloneChanges),
    Row<&FreeStateId>(OP_FREE_STATEID, kChanges),
    Row<&GetDirectoryDelegation>(OP_GET_DIR_DELEGATION, kObjectChanges),
    Bare(OP_GETDEVICEINFO),
    Bare(OP_GETDEVICELIST),
    Bare(OP_LAYOUTCOMMIT),
    Bare(OP_LAYOUTGET),
    Bare(OP_LAYOUTRETURN),
    Row<&SecurityInformationNoName>(OP_SECINFO_NO_NAME, kObject),
    Bare(OP_SEQUENCE, Placement::kOpener),
    Row<&SetSecret>(OP_SET_SSV, kChanges),
    Row<&TestStateIds>(OP_TEST_STATEID, kPlain),
    Row<&WantDelegation>(OP_WANT_DELEGATION, kObjectChanges),
    Row<&DestroyClientId>(OP_DESTROY_CLIENTID, kAlsoAloneChanges),
    Row<&ReclaimComplete>(OP_RECLAIM_COMPLETE, kChanges),
};

// The operations of RFC 7862 and RFC 8276.
constexpr Operation kAddedByRfc7862[] = {
    Row<&Allocate>(OP_ALLOCATE, kObjectLasts),
    Row<&Copy>(OP_COPY, kObjectsLast),
    Row<&NotifyOfCopy>(OP_COPY_NOTIFY, kObject),
    Row<&Deallocate>(OP_DEALLOCATE, kObjectLasts),
    Row<&Advise>(OP_IO_ADVISE, kObject),
    Bare(OP_LAYOUTERROR),
    Bare(OP_LAYOUTSTATS),
    Row<&CancelOffload>(OP_OFFLOAD_CANCEL, kObjectChanges),
    Row<&OffloadStatus>(OP_OFFLOAD_STATUS, kObject),
    Row<&ReadPlus>(OP_READ_PLUS, kObject),
    Row<&Seek>(OP_SEEK, kObject),
    Row<&WriteSame>(OP_WRITE_SAME, kObjectLasts),
    Row<&Clone>(OP_CLONE, kObjectsLast),
    Row<&GetExtendedAttribute>(OP_GETXATTR, kObject),
    Row<&SetExtendedAttribute>(OP_SETXATTR, kObjectLasts),
    Row<&ListExtendedAttributes>(OP_LISTXATTRS, kObject),
    Row<&RemoveExtendedAttribute>(OP_REMOVEXATTR, kObjectLasts),
};

// The sessions of 2004 add these operations to those of RFC 7530, and remove the ones below (draft §3.5, §6).
constexpr Operation kAddedBySess01[] = {
    Bare(OP_OPERATION_CONTROL, Placement::kOpener),
    Row<&CreateBoundSession>(OP_SESSION_CREATE, {.placement = Placement::kOnlyAlone, .changes = true}),
    Row<&BindToSession>(OP_SESSION_BIND, {.placement = Placement::kBeforeReads}),
    Row<&DestroyBoundSession>(OP_SESSION_DESTROY, {.placement = Placement::kLast, .changes = true}),
};
constexpr Operation kRemovedBySess01[] = {
    Bare(OP_OPEN_CONFIRM),
    Bare(OP_RENEW),
    Bare(OP_SETCLIENTID),
    Bare(OP_SETCLIENTID_CONFIRM),
};

// All rows of one table, then all rows of another one.
template <const auto& kBefore, const auto& kAdded>
constexpr auto Join() {
  std::array<Operation, std::size(kBefore) + std::size(kAdded)> rows{};
  std::ranges::copy(kAdded, std::ranges::copy(kBefore, rows.begin()).out);
  return rows;
}

// Replaces the rows of the operations that a dialect does not support.
constexpr void Remove(std::span<Operation> rows, std::span<const Operation> removed) {
  for (const Operation& each : removed) *std::ranges::find(rows, each.number, &Operation::number) = each;
}

// Dialect::Find() relies on rows in the order of their numbers, without gaps.
constexpr bool IsDense(std::span<const Operation> rows, nfs_opnum4 first = OP_ACCESS) {
  for (size_t i = 0; i < rows.size(); ++i) {
    if (static_cast<size_t>(rows[i].number) != static_cast<size_t>(first) + i) return false;
  }
  return true;
}

constexpr auto kRowsOfRfc8881 = [] {
  auto rows = Join<kRowsOfRfc7530, kAddedByRfc8881>();
  Remove(rows, kRemovedByRfc8881);
  return rows;
}();
constexpr auto kRowsOfRfc7862 = Join<kRowsOfRfc8881, kAddedByRfc7862>();
constexpr auto kRowsOfSess01 = [] {
  auto rows = std::to_array(kRowsOfRfc7530);
  Remove(rows, kRemovedBySess01);
  return rows;
}();
static_assert(IsDense(kRowsOfRfc7530) && IsDense(kRowsOfRfc8881) && IsDense(kRowsOfRfc7862) && IsDense(kRowsOfSess01) &&
              IsDense(kAddedBySess01, OP_OPERATION_CONTROL));

constinit const Dialect kRfc7530(kFactsOfRfc7530, kRowsOfRfc7530);
constinit const Dialect kRfc8881(kFactsOfRfc8881, kRowsOfRfc8881);
constinit const Dialect kRfc7862(kFactsOfRfc7862, kRowsOfRfc7862);
constinit const Dialect kSess01(kFactsOfSess01, kRowsOfSess01, kAddedBySess01);

}  // namespace

const Dialect* FindDialect(MinorVersion minor_version) {
  for (const Dialect* const dialect : {&kRfc7530, &kRfc8881, &kRfc7862}) {
    if (dialect->minor_version() == minor_version) return dialect;
  }
  return nullptr;
}

const Dialect& DialectOfBoundSessions() { return kSess01; }

}  // namespace penstock::nfs::v4
