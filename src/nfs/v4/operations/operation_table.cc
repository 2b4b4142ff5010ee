#include "nfs/v4/engine/operation_table.h"

#include <array>
#include <concepts>
#include <type_traits>

#include "nfs/v4/operations/operations.h"
#include "xdr/decode.h"
#include "xdr/encode.h"

namespace penstock::nfs::v4 {

using namespace nfs4;  // NOLINT: the protocol's own names, RFC 8881

namespace {

// What the types leave open in the results of operations that change something: bitmaps of attributes, the entry of an
// access control list that a delegation comes with.
constexpr size_t kOpenPart = 128;

// A result begins with its status, be it a union's discriminant or a struct's first member.
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
// Where all failures are no more than their status.
void EncodeStatus(xdr::Encoder& to, nfsstat4 status) { xdr::Encode(to, status); }

template <class Arguments>
bool DecodeArguments(xdr::Decoder& from, Arguments& arguments) {
  if constexpr (std::same_as<Arguments, AttributeSet>) {
    return arguments.Decode(from);
  } else {
    return xdr::Decode(from, arguments);
  }
}

// How an operation of each shape is run; see operations.h.
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

// Those that write their results themselves.
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
  uint8_t first = 0;
  uint8_t last = 2;
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
                .first = traits.first,
                .last = traits.last,
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

// Of one that we do not have. Every failure of theirs is a status alone.
constexpr Operation Missing(nfs_opnum4 number, uint8_t first) {
  return {.number = number, .first = first, .last = 2, .fail = &EncodeStatus};
}

constexpr Traits kPlain{};
constexpr Traits kObject{.current = true};
constexpr Traits kObjectChanges{.current = true, .changes = true};
constexpr Traits kGivesUp{.current = true, .changes = true, .gives_up = true};
constexpr Traits kObjectLasts{.current = true, .changes = true, .lasting = true};
constexpr Traits kObjectsLast{.current = true, .saved = true, .changes = true, .lasting = true};
constexpr Traits kOnly0{.last = 0, .changes = true};
constexpr Traits kObjectOnly0{.last = 0, .current = true, .changes = true};
constexpr Traits kFrom1{.first = 1};
constexpr Traits kFrom1Changes{.first = 1, .changes = true};
constexpr Traits kObjectFrom1{.first = 1, .current = true};
constexpr Traits kObjectFrom1Changes{.first = 1, .current = true, .changes = true};
constexpr Traits kObjectFrom2{.first = 2, .current = true};
constexpr Traits kObjectFrom2Changes{.first = 2, .current = true, .changes = true};
constexpr Traits kObjectFrom2Lasts{.first = 2, .current = true, .changes = true, .lasting = true};
constexpr Traits kObjectsFrom2Last{.first = 2, .current = true, .saved = true, .changes = true, .lasting = true};

// What `changes` of minor version 0 is also remembered in the duplicate request cache. WRITE puts the same octets to the
// same place, and is remembered in a quota of its own.
constexpr Operation kOperations[] = {
    Row<&Access>(OP_ACCESS, kObject),
    Row<&Close>(OP_CLOSE, kGivesUp),
    Row<&Commit>(OP_COMMIT, kObject),
    Row<&Create>(OP_CREATE, kObjectLasts),
    Row<&PurgeDelegations>(OP_DELEGPURGE, {.changes = true}),
    Row<&ReturnDelegation>(OP_DELEGRETURN, kGivesUp),
    Row<&GetAttributes>(OP_GETATTR, kObject),
    Row<&GetFileHandle>(OP_GETFH, kObject),
    Row<&Link>(OP_LINK, kObjectsLast),
    Row<&Lock>(OP_LOCK, kObjectChanges),
    Row<&TestLock>(OP_LOCKT, kObject),
    Row<&Unlock>(OP_LOCKU, kGivesUp),
    Row<&Lookup>(OP_LOOKUP, kObject),
    Row<&LookupParent>(OP_LOOKUPP, kObject),
    Row<&NotVerify>(OP_NVERIFY, kObject),
    Row<&Open>(OP_OPEN, kObjectChanges),
    Row<&OpenAttributes>(OP_OPENATTR, kObject),
    Row<&ConfirmOpen>(OP_OPEN_CONFIRM, kObjectOnly0),
    Row<&DowngradeOpen>(OP_OPEN_DOWNGRADE, kGivesUp),
    Row<&PutFileHandle>(OP_PUTFH, kPlain),
    Row<&PutPublicFileHandle>(OP_PUTPUBFH, kPlain),
    Row<&PutRootFileHandle>(OP_PUTROOTFH, kPlain),
    Row<&Read>(OP_READ, kObject),
    Row<&ReadDirectory>(OP_READDIR, kObject),
    Row<&ReadLink>(OP_READLINK, kObject),
    Row<&Remove>(OP_REMOVE, kObjectLasts),
    Row<&Rename>(OP_RENAME, kObjectsLast),
    Row<&Renew>(OP_RENEW, {.last = 0}),
    Row<&RestoreFileHandle>(OP_RESTOREFH, kPlain),
    Row<&SaveFileHandle>(OP_SAVEFH, kObject),
    Row<&SecurityInformation>(OP_SECINFO, kObject),
    Row<&SetAttributes>(OP_SETATTR, kObjectLasts),
    Row<&SetClientId>(OP_SETCLIENTID, kOnly0),
    Row<&ConfirmClientId>(OP_SETCLIENTID_CONFIRM, kOnly0),
    Row<&Verify>(OP_VERIFY, kObject),
    Row<&Write>(OP_WRITE, kObject),
    Row<&ReleaseLockOwner>(OP_RELEASE_LOCKOWNER, kOnly0),

    Row<&ControlBackChannel>(OP_BACKCHANNEL_CTL, kFrom1Changes),
    Row<&BindConnection>(OP_BIND_CONN_TO_SESSION, kFrom1),
    Row<&ExchangeId>(OP_EXCHANGE_ID, kFrom1),
    Row<&CreateSession>(OP_CREATE_SESSION, kFrom1Changes),
    Row<&DestroySession>(OP_DESTROY_SESSION, kFrom1Changes),
    Row<&FreeStateId>(OP_FREE_STATEID, kFrom1Changes),
    Row<&GetDirectoryDelegation>(OP_GET_DIR_DELEGATION, kObjectFrom1Changes),
    Missing(OP_GETDEVICEINFO, 1),
    Missing(OP_GETDEVICELIST, 1),
    Missing(OP_LAYOUTCOMMIT, 1),
    Missing(OP_LAYOUTGET, 1),
    Missing(OP_LAYOUTRETURN, 1),
    Row<&SecurityInformationNoName>(OP_SECINFO_NO_NAME, kObjectFrom1),
    Missing(OP_SEQUENCE, 1),  // by the COMPOUND itself
    Row<&SetSecret>(OP_SET_SSV, kFrom1Changes),
    Row<&TestStateIds>(OP_TEST_STATEID, kFrom1),
    Row<&WantDelegation>(OP_WANT_DELEGATION, kObjectFrom1Changes),
    Row<&DestroyClientId>(OP_DESTROY_CLIENTID, kFrom1Changes),
    Row<&ReclaimComplete>(OP_RECLAIM_COMPLETE, kFrom1Changes),

    Row<&Allocate>(OP_ALLOCATE, kObjectFrom2Lasts),
    Row<&Copy>(OP_COPY, kObjectsFrom2Last),
    Missing(OP_COPY_NOTIFY, 2),
    Row<&Deallocate>(OP_DEALLOCATE, kObjectFrom2Lasts),
    Row<&Advise>(OP_IO_ADVISE, kObjectFrom2),
    Missing(OP_LAYOUTERROR, 2),
    Missing(OP_LAYOUTSTATS, 2),
    Row<&CancelOffload>(OP_OFFLOAD_CANCEL, kObjectFrom2Changes),
    Row<&OffloadStatus>(OP_OFFLOAD_STATUS, kObjectFrom2),
    Row<&ReadPlus>(OP_READ_PLUS, kObjectFrom2),
    Row<&Seek>(OP_SEEK, kObjectFrom2),
    Row<&WriteSame>(OP_WRITE_SAME, kObjectFrom2Lasts),
    Row<&Clone>(OP_CLONE, kObjectsFrom2Last),
    Row<&GetExtendedAttribute>(OP_GETXATTR, kObjectFrom2),
    Row<&SetExtendedAttribute>(OP_SETXATTR, kObjectFrom2Lasts),
    Row<&ListExtendedAttributes>(OP_LISTXATTRS, kObjectFrom2),
    Row<&RemoveExtendedAttribute>(OP_REMOVEXATTR, kObjectFrom2Lasts),
};

// Without gaps, from ACCESS on.
constexpr auto kFirst = static_cast<size_t>(OP_ACCESS);
static_assert([] {
  for (size_t i = 0; i < std::size(kOperations); ++i) {
    if (static_cast<size_t>(kOperations[i].number) != kFirst + i) return false;
  }
  return true;
}());
static_assert(std::size(kOperations) == static_cast<size_t>(OP_REMOVEXATTR) - kFirst + 1);

}  // namespace

const Operation* FindOperation(nfs_opnum4 number) {
  const auto index = static_cast<size_t>(number) - kFirst;
  return index < std::size(kOperations) ? &kOperations[index] : nullptr;
}

}  // namespace penstock::nfs::v4
