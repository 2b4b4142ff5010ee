#include "nfs/v4/operations/open_target.h"

#include "nfs/v4/attributes/convert.h"
#include "nfs/v4/engine/namespace.h"
#include "nfs/v4/operations/given_attributes.h"

namespace penstock::nfs::v4 {

using namespace nfs4;  // NOLINT: the protocol's own names, RFC 8881

namespace {

using Found = Result<OpenTarget, nfsstat4>;

// How often a file may come and go between our looking for it and making it.
constexpr int kRaces = 8;

nfsstat4 StatusInDirectory(fs::Error error, const std::optional<fs::Attributes>& directory) {
  const bool is_link = directory && directory->type == fs::FileType::kSymlink;
  return error == fs::Error::kNotDir && is_link ? NFS4ERR_SYMLINK : ToStatus(error);
}

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

// RFC 8881 §18.16.3: what holds the verifier of an exclusive create, which the client sets next.
AttributeSet HoldingVerifier() { return {FATTR4_TIME_ACCESS_SET, FATTR4_TIME_MODIFY_SET}; }

// Whoever may execute a file may read it, too (RFC 8881 §18.22.4). `for_owner`: the file's owner may have it open
// whatever its mode says.
Task<nfsstat4> CheckAccess(const Object& object, fs::Handle file, Share share, bool for_owner) {
  constexpr fs::AccessMask kReading = fs::kAccessRead | fs::kAccessExecute;
  const fs::AccessMask wanted = (share.reads() ? kReading : 0) | (share.writes() ? fs::kAccessModify : 0);
  if (share.writes() && object.read_only()) co_return NFS4ERR_ROFS;
  const auto access = co_await object.file_system().Access(object.context(), file, wanted);
  if (!access.result) co_return ToStatus(access.result.error());
  if (for_owner && access.attributes->uid == object.context().credentials.uid) co_return NFS4_OK;
  if (share.reads() && !(*access.result & kReading)) co_return NFS4ERR_ACCESS;
  if (share.writes() && !(*access.result & fs::kAccessModify)) co_return NFS4ERR_ACCESS;
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

Task<Found> Make(Compound& compound, std::string_view name, const fs::CreateHow& how, AttributeSet set) {
  const Object& directory = *compound.current;
  if (directory.read_only()) co_return std::unexpected(NFS4ERR_ROFS);
  const auto made = co_await directory.file_system().Create(directory.context(), directory.object(), name, how);
  if (!made.result) co_return std::unexpected(StatusInDirectory(made.result.error(), made.object.after));
  // One that the same verifier made before (EXCLUSIVE4) is the caller's own where it belongs to the caller: everybody
  // can read the verifier, which is kept in the file's times.
  const fs::Node& node = *made.result;
  const bool is_own = !node.existed || node.attributes.uid == directory.context().credentials.uid;
  co_return OpenTarget{.object = node.handle, .directory = ToChangeInfo(made.object), .is_own = is_own, .set = set};
}

// It is made, with or without the list that it is to have: attrset tells.
Task<Found> MakeWithAcl(Compound& compound, std::string_view name, const fs::CreateHow& how, GivenAttributes given) {
  auto made = co_await Make(compound, name, how, given.set);
  if (!made) co_return made;
  co_await SetAcl(*compound.current, made->object, false, given);
  made->set = given.set;
  co_return made;
}

// A file that is there will do: then nothing of what is given counts but a size of zero, and that not before others'
// denials and delegations have been looked at. So it is looked for first.
Task<Found> FindOrMake(Compound& compound, std::string_view name, const GivenAttributes& given) {
  fs::CreateHow how;
  how.mode = fs::CreateMode::kGuarded;
  how.attributes = given.values;
  for (int tries = 0; tries < kRaces; ++tries) {
    auto found = co_await FindExisting(compound, name);
    if (found) {
      found->truncate = given.values.size == 0;
      if (found->truncate) found->set.Add(FATTR4_SIZE);
    }
    if (found || found.error() != NFS4ERR_NOENT) co_return found;
    auto made = co_await MakeWithAcl(compound, name, how, given);
    if (made || made.error() != NFS4ERR_EXIST) co_return made;
  }
  co_return std::unexpected(NFS4ERR_DELAY);
}

Task<Found> MakeExclusively(Compound& compound, std::string_view name, const createhow4& how) {
  fs::CreateHow create;
  create.mode = fs::CreateMode::kExclusive;
  AttributeSet set = HoldingVerifier();
  if (how.mode() == EXCLUSIVE4) {
    // RFC 8881 §18.16.3: GUARDED4 is as good there, and does not need the file's times.
    if (compound.slot && compound.slot->persistent) co_return std::unexpected(NFS4ERR_INVAL);
    create.verifier = FromVerifier<fs::CreateVerifier>(how.createverf());
    create.attributes.mode = 0600;  // nobody else's until its owner has said so (RFC 8881 §18.16.4)
  } else {
    auto given = co_await ReadAttributes(compound, how.ch_createboth().cva_attrs, AttributeUse::kExclusiveCreate);
    if (!given) co_return std::unexpected(given.error());
    create.verifier = FromVerifier<fs::CreateVerifier>(how.ch_createboth().cva_verf);
    create.attributes = given->values;
    set = set | given->set;
  }
  co_return co_await Make(compound, name, create, set);
}

Task<Found> Create(Compound& compound, std::string_view name, const createhow4& how) {
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
  // What stands for another export is a directory.
  const auto junctions = co_await compound.services.names.JunctionsIn(*compound.current, compound.call.peer, name);
  if (!junctions.empty()) co_return std::unexpected(NFS4ERR_ISDIR);
  if (how.opentype() == OPEN4_CREATE) co_return co_await Create(compound, name, how.how());
  co_return co_await FindExisting(compound, name);
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
      // There is no name to make a file of (RFC 8881 §18.16.3).
      if (arguments.openhow.opentype() == OPEN4_CREATE) co_return std::unexpected(NFS4ERR_INVAL);
      co_return co_await FindCurrent(compound);
    case CLAIM_DELEGATE_PREV:
    case CLAIM_DELEG_PREV_FH:
      // Delegations do not outlive their client here (RFC 8881 §10.2.1).
      co_return std::unexpected(NFS4ERR_NOTSUPP);
  }
  co_return std::unexpected(NFS4ERR_INVAL);
}

// What was opened on a delegation was allowed then; reading and writing are checked by themselves.
bool WasAllowedBefore(open_claim_type4 claim) { return claim == CLAIM_DELEGATE_CUR || claim == CLAIM_DELEG_CUR_FH; }

}  // namespace

Task<Result<OpenTarget, nfsstat4>> FindOpenTarget(Compound& compound, const OPEN4args& arguments, const Share& share) {
  auto target = co_await FindClaimed(compound, arguments);
  if (!target || target->is_own || WasAllowedBefore(arguments.claim.claim())) co_return target;
  // RFC 8881 §8.4.2.1.1: a client that says that it had the file open need not be believed. But its owner may have made
  // it with a mode that is good for nobody's writing.
  const bool for_owner = arguments.claim.claim() == CLAIM_PREVIOUS;
  const nfsstat4 status = co_await CheckAccess(*compound.current, target->object, share, for_owner);
  if (status != NFS4_OK) co_return std::unexpected(status);
  co_return target;
}

}  // namespace penstock::nfs::v4
