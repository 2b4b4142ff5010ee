#include "nfs/v4/operations/open_target.h"

#include "nfs/v4/attributes/convert.h"
#include "nfs/v4/engine/namespace.h"
#include "nfs/v4/operations/given_attributes.h"

namespace penstock::nfs::v4 {

using namespace nfs4;  // NOLINT: the protocol's own names, RFC 8881

namespace {

using Found = Result<OpenTarget, nfsstat4>;

// The limit of retries if a file appears and disappears between the look-up and the creation.
constexpr int kRaces = 8;

// Checks whether an object of this type can be opened (RFC 8881 §18.16.4, RFC 7530 §16.16.6).
nfsstat4 CheckType(const Compound& compound, fs::FileType type) {
  switch (type) {
    case fs::FileType::kRegular:
      return NFS4_OK;
    case fs::FileType::kDirectory:
      return NFS4ERR_ISDIR;
    case fs::FileType::kSymlink:
      return NFS4ERR_SYMLINK;
    default:
      return compound.dialect.errors().special_cannot_be_opened;
  }
}

change_info4 Unchanged(const std::optional<fs::Attributes>& directory) {
  const uint64_t change = directory ? directory->change : 0;
  return {.atomic = false, .before = change, .after = change};
}

// RFC 8881 §18.16.3: the attributes that hold the verifier of an exclusive create. The client sets them next.
AttributeSet HoldingVerifier() { return {FATTR4_TIME_ACCESS_SET, FATTR4_TIME_MODIFY_SET}; }

// Checks the caller's permission. Execute permission admits reading (RFC 8881 §18.22.4). `for_owner`: the file's owner
// may have it open whatever its mode.
Task<nfsstat4> CheckAccess(const Object& object, fs::Handle file, Share share, bool for_owner) {
  constexpr fs::AccessMask kReading = fs::kAccessRead | fs::kAccessExecute;
  const fs::AccessMask wanted = (share.reads() ? kReading : 0) | (share.writes() ? fs::kAccessModify : 0);
  if (share.writes() && object.read_only()) co_return NFS4ERR_ROFS;
  const auto access = co_await object.file_system().Access(object.context(), file, wanted);
  if (!access.result) co_return ToStatus(access.result.error());
  const bool may_modify = *access.result & fs::kAccessModify;
  // The owner gets this error, too: WRITE would fail.
  if (share.writes() && !may_modify && object.file_system().GetProperties().read_only) co_return NFS4ERR_ROFS;
  if (for_owner && access.attributes->uid == object.context().credentials.uid) co_return NFS4_OK;
  if (share.reads() && !(*access.result & kReading)) co_return NFS4ERR_ACCESS;
  if (share.writes() && !may_modify) co_return NFS4ERR_ACCESS;
  co_return NFS4_OK;
}

Task<Found> FindExisting(Compound& compound, std::string_view name) {
  const Object& directory = *compound.current;
  const auto found = co_await directory.file_system().Lookup(directory.context(), directory.object(), name);
  if (!found.result) co_return std::unexpected(StatusInDirectory(found.result.error(), found.attributes));
  if (const nfsstat4 status = CheckType(compound, found.result->attributes.type); status != NFS4_OK) {
    co_return std::unexpected(status);
  }
  co_return OpenTarget{.object = found.result->handle, .directory = Unchanged(found.attributes)};
}

// Whether a creation that failed may have made the file: what failed may be the sync of the directory.
bool MayBeMade(nfsstat4 status) { return status == NFS4ERR_IO || status == NFS4ERR_NOSPC || status == NFS4ERR_DQUOT; }

Task<Found> Make(Compound& compound, std::string_view name, const fs::CreateHow& how, AttributeSet set) {
  const Object& directory = *compound.current;
  if (directory.read_only()) co_return std::unexpected(NFS4ERR_ROFS);
  const auto made = co_await directory.file_system().Create(directory.context(), directory.object(), name, how);
  if (!made.result) {
    const nfsstat4 status = StatusInDirectory(made.result.error(), made.object.after);
    compound.lasting |= MayBeMade(status);
    co_return std::unexpected(status);
  }
  const fs::Node& node = *made.result;
  if (node.existed && how.mode == fs::CreateMode::kUnchecked) {
    co_return OpenTarget{.object = node.handle, .directory = Unchanged(made.object.after)};
  }
  // A file that the same verifier made (EXCLUSIVE4) counts as the caller's only if the caller owns it: every user can
  // read the verifier in the file's times.
  const bool is_own = !node.existed || node.attributes.uid == directory.context().credentials.uid;
  co_return OpenTarget{.object = node.handle,
                       .directory = ToChangeInfo(made.object),
                       .is_new = !node.existed,
                       .is_own = is_own,
                       .set = set};
}

// The file exists now, with or without its access control list: attrset reports it.
Task<Found> MakeWithAcl(Compound& compound, std::string_view name, const fs::CreateHow& how, GivenAttributes given) {
  auto made = co_await Make(compound, name, how, given.set);
  if (!made || !made->is_own) co_return made;
  co_await SetAcl(*compound.current, made->object, false, given);
  made->set = given.set;
  co_return made;
}

// UNCHECKED4 accepts an existing file. Of the attributes only a size of zero is applied to it, after denials and
// delegations are checked.
Task<Found> FindOrMake(Compound& compound, std::string_view name, const GivenAttributes& given) {
  const bool truncates = given.values.size == 0;
  fs::CreateHow how;
  how.mode = fs::CreateMode::kUnchecked;
  how.attributes = given.values;
  if (truncates) how.attributes.size.reset();
  for (int tries = 0; tries < kRaces; ++tries) {
    auto target = co_await MakeWithAcl(compound, name, how, given);
    if (target && target->is_own) co_return target;
    if (!target) {
      // The name may stand for something else, or for a file that exists where the caller may make none.
      const nfsstat4 refused = target.error();
      if (MayBeMade(refused)) co_return target;
      target = co_await FindExisting(compound, name);
      const bool is_gone = !target && target.error() == NFS4ERR_NOENT;
      if (is_gone && refused == NFS4ERR_EXIST) continue;
      if (is_gone) co_return std::unexpected(refused);
      if (!target) co_return target;
    }
    target->truncate = truncates;
    if (truncates) target->set.Add(FATTR4_SIZE);
    co_return target;
  }
  co_return std::unexpected(NFS4ERR_DELAY);
}

Task<Found> MakeExclusively(Compound& compound, std::string_view name, const createhow4& how) {
  fs::CreateHow create;
  create.mode = fs::CreateMode::kExclusive;
  AttributeSet set = HoldingVerifier();
  if (how.mode() == EXCLUSIVE4) {
    // RFC 8881 §18.16.3: GUARDED4 is equivalent in a persistent session, and does not need the file's times.
    if (compound.session && compound.session->replaces_exclusive4) co_return std::unexpected(NFS4ERR_INVAL);
    create.verifier = FromVerifier<fs::CreateVerifier>(how.createverf());
    create.attributes.mode = 0600;  // private until its owner sets the mode (RFC 8881 §18.16.4)
  } else {
    auto given = co_await ReadAttributes(compound, how.ch_createboth().cva_attrs, AttributeUse::kExclusiveCreate);
    if (!given) co_return std::unexpected(given.error());
    create.verifier = FromVerifier<fs::CreateVerifier>(how.ch_createboth().cva_verf);
    create.attributes = given->values;
    set = set | given->set;
  }
  co_return co_await Make(compound, name, create, set);
}

Task<Found> MakeFile(Compound& compound, std::string_view name, const createhow4& how) {
  if (how.is_createverf() || how.is_ch_createboth()) co_return co_await MakeExclusively(compound, name, how);
  const auto given = co_await ReadAttributes(compound, how.createattrs(), AttributeUse::kCreate);
  if (!given) co_return std::unexpected(given.error());
  if (how.mode() == UNCHECKED4) co_return co_await FindOrMake(compound, name, *given);
  fs::CreateHow guarded;
  guarded.mode = fs::CreateMode::kGuarded;
  guarded.attributes = given->values;
  co_return co_await MakeWithAcl(compound, name, guarded, *given);
}

Task<Found> FindNamed(Compound& compound, std::string_view name, const openflag4& how) {
  if (const nfsstat4 status = CheckName(name); status != NFS4_OK) co_return std::unexpected(status);
  // The root of another export is a directory.
  const auto junctions = co_await compound.names->JunctionsIn(*compound.current, compound.call.peer, name);
  if (!junctions.empty()) co_return std::unexpected(NFS4ERR_ISDIR);
  if (how.opentype() != OPEN4_CREATE) co_return co_await FindExisting(compound, name);
  // The place of an export that does not admit the client.
  const bool is_junction = co_await compound.names->IsJunction(*compound.current, name);
  if (is_junction) co_return std::unexpected(NFS4ERR_ACCESS);
  co_return co_await MakeFile(compound, name, how.how());
}

Task<Found> FindCurrent(Compound& compound) {
  const Object& file = *compound.current;
  const auto attributes = co_await file.file_system().GetAttributes(file.context(), file.object());
  if (!attributes) co_return std::unexpected(ToStatus(attributes.error()));
  if (const nfsstat4 status = CheckType(compound, attributes->type); status != NFS4_OK) {
    co_return std::unexpected(status);
  }
  co_return OpenTarget{.object = file.object()};
}

Task<Found> FindClaimed(Compound& compound, const OPEN4args& arguments) {
  const open_claim4& claim = arguments.claim;
  switch (claim.claim()) {
    case CLAIM_NULL:
      co_return co_await FindNamed(compound, claim.file(), arguments.openhow);
    case CLAIM_DELEGATE_CUR:
      co_return co_await FindNamed(compound, claim.delegate_cur_info().file, arguments.openhow);
    case CLAIM_PREVIOUS:
    case CLAIM_FH:
    case CLAIM_DELEG_CUR_FH:
      // This claim has no name for a new file (RFC 8881 §18.16.3).
      if (arguments.openhow.opentype() == OPEN4_CREATE) co_return std::unexpected(NFS4ERR_INVAL);
      co_return co_await FindCurrent(compound);
    case CLAIM_DELEGATE_PREV:
    case CLAIM_DELEG_PREV_FH:
      // Delegations do not outlive their client on this server (RFC 8881 §10.2.1).
      co_return std::unexpected(NFS4ERR_NOTSUPP);
  }
  co_return std::unexpected(NFS4ERR_INVAL);
}

// An open under a delegation was permitted at its time. Reads and writes are checked separately.
bool WasAllowedBefore(open_claim_type4 claim) { return claim == CLAIM_DELEGATE_CUR || claim == CLAIM_DELEG_CUR_FH; }

}  // namespace

Task<Result<OpenTarget, nfsstat4>> FindOpenTarget(Compound& compound, const OPEN4args& arguments, const Share& share) {
  auto target = co_await FindClaimed(compound, arguments);
  if (!target || target->is_own || WasAllowedBefore(arguments.claim.claim())) co_return target;
  // RFC 8881 §8.4.2.1.1: the server need not believe that the client had the file open, so it checks permission. But
  // the owner may have made the file with a mode that admits no writer.
  const bool for_owner = arguments.claim.claim() == CLAIM_PREVIOUS;
  const nfsstat4 status = co_await CheckAccess(*compound.current, target->object, share, for_owner);
  if (status != NFS4_OK) co_return std::unexpected(status);
  co_return target;
}

}  // namespace penstock::nfs::v4
