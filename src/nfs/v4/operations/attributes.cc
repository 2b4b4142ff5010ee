// GETATTR, SETATTR, VERIFY, NVERIFY, ACCESS.
#include "nfs/v4/operations/attributes.h"

#include <algorithm>
#include <array>
#include <optional>

#include "nfs/v4/attributes/convert.h"
#include "nfs/v4/attributes/owner_texts.h"
#include "nfs/v4/engine/namespace.h"
#include "nfs/v4/operations/given_attributes.h"
#include "nfs/v4/operations/io_state.h"
#include "nfs/v4/operations/operations.h"
#include "nfs/v4/operations/stateful.h"
#include "xdr/encode.h"

namespace penstock::nfs::v4 {

using namespace nfs4;  // NOLINT: the protocol's own names, RFC 8881

namespace {

constexpr AttributeSet kHeldAttributes{FATTR4_CHANGE, FATTR4_SIZE, FATTR4_TIME_METADATA, FATTR4_TIME_MODIFY};
constexpr AttributeSet kAccessTime{FATTR4_TIME_ACCESS};

// Finds the quota that limits the object's growth: that of its owner or that of its group, whichever leaves less room
// (RFC 8881 §5.8.2.30: "choose the set with the smallest quota"). A caller learns the quotas of the own id and groups
// only, and root those of all.
Task<fs::Result<std::optional<fs::QuotaUse>>> FindQuota(const Object& object, const fs::Attributes& attributes) {
  const fs::Credentials& caller = object.context().credentials;
  const bool is_member =
      caller.gid == attributes.gid || std::ranges::find(caller.groups, attributes.gid) != caller.groups.end();
  struct Candidate {
    fs::QuotaKind kind;
    uint32_t id;
    bool may_know;
  };
  const std::array<Candidate, 2> candidates{
      Candidate{fs::QuotaKind::kUser, attributes.uid, caller.uid == 0 || caller.uid == attributes.uid},
      Candidate{fs::QuotaKind::kGroup, attributes.gid, caller.uid == 0 || is_member}};
  const auto room = [](const fs::QuotaUse& use) {
    const uint64_t limit = use.hard != 0 ? use.hard : use.soft;
    return limit - std::min(limit, use.used);
  };
  std::optional<fs::QuotaUse> smallest;
  for (const Candidate& each : candidates) {
    if (!each.may_know) continue;
    const auto quota = co_await object.file_system().GetQuota(object.context(), each.kind, each.id);
    if (!quota && quota.error() == fs::Error::kPerm) continue;  // the server itself may not know it
    if (!quota) co_return std::unexpected(quota.error());
    if (!*quota || !(*quota)->enforced) continue;
    const fs::QuotaUse& use = (*quota)->bytes;
    if (use.hard == 0 && use.soft == 0) continue;
    if (!smallest || room(use) < room(*smallest)) smallest = use;
  }
  co_return smallest;
}

}  // namespace

AttributeSet SupportedBy(const Object& object, const Dialect& dialect) {
  return SupportedAttributes(object.file_system().GetProperties(), dialect, object.in().locations());
}

AttributeValues ValuesOf(const Compound& compound, const Object& object) {
  std::optional<FileSystemLocations> locations;
  if (!object.in().locations().list.empty()) {
    locations.emplace(
        FileSystemLocations{object.in().locations(), compound.names->PathOf(object.in()), object.read_only()});
  }
  return {.settings = compound.services.settings,
          .owners = compound.owners,
          .properties = object.file_system().GetProperties(),
          .dialect = compound.dialect,
          .handle = object.handle(),
          .locations = locations};
}

Task<nfsstat4> LoadAttributes(Compound& compound, const Object& object, const AttributeSet& set,
                              AttributeValues& values) {
  fs::FileSystem& file_system = object.file_system();
  if (object.in().is_referral()) {
    values.mounted_on_fileid =
        co_await compound.names->MountedOnFileId(object, object.in().id().value(), compound.call.peer);
    co_return NFS4_OK;
  }
  const auto attributes = co_await file_system.GetAttributes(object.context(), object.object());
  if (!attributes) co_return ToStatus(attributes.error());
  values.attributes = *attributes;
  values.mounted_on_fileid = attributes->fileid;
  // RFC 8881 §10.4.3: the holder of a write delegation may know newer values.
  if (set.Intersects(kHeldAttributes | kAccessTime) && MayHaveHolder(compound, object)) {
    co_await AskHolder(compound, object, set.Intersects(kHeldAttributes), values.attributes);
  }
  const Namespace& names = *compound.names;
  if (set.Has(FATTR4_MOUNTED_ON_FILEID) && names.IsTop(object)) {
    values.mounted_on_fileid = co_await names.MountedOnFileId(object, attributes->fileid, compound.call.peer);
  }
  if (set.Intersects(kSpaceAttributes)) {
    const auto space = co_await file_system.GetSpace(object.context(), object.object());
    if (!space.result) co_return ToStatus(space.result.error());
    values.space = *space.result;
  }
  if (set.Intersects(kQuotaAttributes)) {
    const auto quota = co_await FindQuota(object, *attributes);
    if (!quota) co_return ToStatus(quota.error());
    values.quota = *quota;
  }
  OwnerTexts& owners = compound.owners;
  if (set.Intersects(kAclAttributes)) {
    const auto acls = co_await file_system.GetAcls(object.context(), object.object());
    if (!acls.result) co_return ToStatus(acls.result.error());
    values.acls = *acls.result;
    co_await LoadTexts(owners, values.acls);
  }
  if (set.Intersects(kOwnerAttributes) && !owners.LoadAtOnce(attributes->uid, attributes->gid)) {
    co_await owners.Load(attributes->uid, attributes->gid);
  }
  co_return NFS4_OK;
}

namespace {

// Compares the object's attributes with `given` (RFC 8881 §18.31). Returns NFS4ERR_SAME, NFS4ERR_NOT_SAME, or the error
// that prevents the comparison.
Task<nfsstat4> Compare(Compound& compound, const fattr4& given) {
  const AttributeSet set(given.attrmask);
  const Object& object = *compound.current;
  const AttributeSet supported = SupportedBy(object, compound.dialect);
  if (object.in().is_referral() && !(set.Intersects(kLocationAttributes) && supported.Contains(set))) {
    co_return NFS4ERR_MOVED;  // RFC 8881 §11.4.1
  }
  if (!supported.Contains(set)) co_return NFS4ERR_ATTRNOTSUPP;
  if (!ReadableAttributes().Contains(set) || set.Has(FATTR4_RDATTR_ERROR)) co_return NFS4ERR_INVAL;
  AttributeValues values = ValuesOf(compound, object);
  const nfsstat4 status = co_await LoadAttributes(compound, object, set, values);
  if (status != NFS4_OK) co_return status;
  if (set.Intersects(AttributesWithoutValue(values))) co_return NFS4ERR_NOT_SAME;
  // A number in place of a name differs from the name although the owner may be the same.
  if (set.Intersects(kOwnerAttributes | kAclAttributes) && compound.owners.lacks_answers()) co_return NFS4ERR_DELAY;

  // Each value has only one encoding: that of GETATTR.
  xdr::Encoder encoder(compound.buffers());
  EncodeAttributes(encoder, set, values);
  const xdr::Message encoded = encoder.Finish();
  const ConstBytes own = encoded.stream.bytes().subspan(set.encoded_size() + 4);
  co_return Equal(own, given.attr_vals.bytes()) ? NFS4ERR_SAME : NFS4ERR_NOT_SAME;
}

// Handles mode_set_masked, which keeps the other bits (RFC 8881 §6.2.5), and an access control list, which is set
// before a mode (RFC 8881 §6.4.1.3) and whose valid entries depend on the object's type.
Task<nfsstat4> ApplyToWhatIsThere(const Object& object, GivenAttributes& given) {
  if (!given.masked_mode && !given.acl) co_return NFS4_OK;
  const auto attributes = co_await object.file_system().GetAttributes(object.context(), object.object());
  if (!attributes) co_return ToStatus(attributes.error());
  const bool is_directory = attributes->type == fs::FileType::kDirectory;
  const nfsstat4 status = co_await SetAcl(object, object.object(), is_directory, given);
  if (status != NFS4_OK || !given.masked_mode) co_return status;
  const uint32_t mask = given.masked_mode->mm_mask_bits;
  given.values.mode = (attributes->mode & ~mask) | (given.masked_mode->mm_value_to_set & mask);
  co_return NFS4_OK;
}

// RFC 9754 §5: the holder of a write delegation reports times, usually before it returns the delegation. Only the
// holder whose delegation made it the authority for the times may do so.
Task<nfsstat4> ApplyDelegatedTimes(Compound& compound, const stateid4& given_id, GivenAttributes& given) {
  if (!given.set.Intersects(kDelegatedTimes)) co_return NFS4_OK;
  if (SetsTimes(given.values)) co_return NFS4ERR_INVAL;
  const auto id = ResolveStateId(compound, given_id);
  if (!id) co_return id.error();
  DelegatedTimes original;
  const nfsstat4 status = compound.services.state.Run([&](StateTables& state) {
    const auto found = FindOwn<DelegationState>(compound, state, *id);
    if (!found) return found.error();
    if (!(*found)->has_times) return NFS4ERR_BAD_STATEID;
    original = (*found)->original;
    return state.files.CheckSeqid(PresenterOf(compound), **found, *id);
  });
  if (status != NFS4_OK) co_return status;
  const Object& object = *compound.current;
  const auto attributes = co_await object.file_system().GetAttributes(object.context(), object.object());
  if (!attributes) co_return ToStatus(attributes.error());
  SetTimes(Vet(given.delegated, original, compound.services.time_of_day()), *attributes, given.values);
  co_return NFS4_OK;
}

// The rights that an object of this type can have (RFC 8881 §18.1.3): only directories have LOOKUP, only other objects
// EXECUTE.
uint32_t MeaningfulRights(fs::FileType type) {
  constexpr uint32_t kAll = ACCESS4_READ | ACCESS4_LOOKUP | ACCESS4_MODIFY | ACCESS4_EXTEND | ACCESS4_DELETE |
                            ACCESS4_EXECUTE | ACCESS4_XAREAD | ACCESS4_XAWRITE | ACCESS4_XALIST;
  return type == fs::FileType::kDirectory ? kAll & ~ACCESS4_EXECUTE : kAll & ~(ACCESS4_LOOKUP | ACCESS4_DELETE);
}

}  // namespace

// RFC 8881 §18.7
Task<nfsstat4> GetAttributes(Compound& compound, const AttributeSet& wanted, xdr::Encoder& results) {
  const Object& object = *compound.current;
  AttributeValues values = ValuesOf(compound, object);
  const AttributeSet known = wanted & SupportedBy(object, compound.dialect);
  const AttributeSet set = known & ReadableAttributes();
  nfsstat4 status = set == known ? NFS4_OK : NFS4ERR_INVAL;  // some attributes can only be set
  // RFC 8881 §11.4.1
  if (object.in().is_referral() && !set.Intersects(kLocationAttributes)) status = NFS4ERR_MOVED;
  if (status == NFS4_OK && object.in().is_referral() && compound.session) {
    const ClientId client = compound.session->client;
    compound.services.state.Run(
        [&](StateTables& state) { state.files.HandleLocationsAsked(client, object.in().id()); });
  }
  if (status == NFS4_OK) status = co_await LoadAttributes(compound, object, set, values);
  xdr::Encode(results, status);
  if (status == NFS4_OK) EncodeAttributes(results, set, values);
  co_return status;
}

// RFC 8881 §18.30. The file system sets all given attributes or none, except for the access control list, which is set
// first.
Task<SETATTR4res> SetAttributes(Compound& compound, const SETATTR4args& arguments) {
  const Object& object = *compound.current;
  auto given = co_await ReadAttributes(compound, arguments.obj_attributes, AttributeUse::kSet);
  if (!given) co_return SETATTR4res{.status = given.error(), .attrsset = {}};
  nfsstat4 status = NFS4_OK;
  if (object.read_only()) {
    status = NFS4ERR_ROFS;
  } else if (given->values.size) {
    status = co_await CheckWrite(compound, arguments.stateid);
  } else {
    status = co_await RecallBeforeChange(compound, object.name(), arguments.stateid);
  }
  if (status == NFS4_OK) status = co_await ApplyDelegatedTimes(compound, arguments.stateid, *given);
  if (status == NFS4_OK) status = co_await ApplyToWhatIsThere(object, *given);
  if (status != NFS4_OK) co_return SETATTR4res{.status = status, .attrsset = {}};

  const auto changed =
      co_await object.file_system().SetAttributes(object.context(), object.object(), given->values, std::nullopt);
  if (!changed.result) {
    co_return SETATTR4res{.status = ToStatus(changed.result.error()),
                          .attrsset = (given->set & kAclAttributes).ToBitmap()};
  }
  co_return SETATTR4res{.status = NFS4_OK, .attrsset = given->set.ToBitmap()};
}

// RFC 8881 §18.31
Task<VERIFY4res> Verify(Compound& compound, const VERIFY4args& arguments) {
  const nfsstat4 status = co_await Compare(compound, arguments.obj_attributes);
  co_return VERIFY4res{.status = status == NFS4ERR_SAME ? NFS4_OK : status};
}

// RFC 8881 §18.15
Task<NVERIFY4res> NotVerify(Compound& compound, const NVERIFY4args& arguments) {
  const nfsstat4 status = co_await Compare(compound, arguments.obj_attributes);
  co_return NVERIFY4res{.status = status == NFS4ERR_NOT_SAME ? NFS4_OK : status};
}

// RFC 8881 §18.1, with the rights to extended attributes of RFC 8276 §8.5.
Task<ACCESS4res> Access(Compound& compound, const ACCESS4args& arguments) {
  constexpr uint32_t kOrdinary = 0x3f;
  constexpr uint32_t kChanging = ACCESS4_MODIFY | ACCESS4_EXTEND | ACCESS4_DELETE | ACCESS4_XAWRITE;
  const uint32_t known =
      compound.dialect.has_extended_attributes() ? MeaningfulRights(fs::FileType::kDirectory) | kOrdinary : kOrdinary;
  if ((arguments.access & ~known) != 0) co_return ACCESS4res(NFS4ERR_INVAL);

  const Object& object = *compound.current;
  const uint32_t wanted = object.read_only() ? arguments.access & ~kChanging : arguments.access;
  const auto observed = co_await object.file_system().Access(object.context(), object.object(), wanted);
  if (!observed.result) co_return ACCESS4res(ToStatus(observed.result.error()));
  // The client then denies its programs what they want, without a call.
  if (wanted != 0 && *observed.result == 0) compound.NoteFailure(OP_ACCESS, NFS4ERR_ACCESS);
  uint32_t supported = arguments.access & MeaningfulRights(observed.attributes->type);
  if (!object.file_system().GetProperties().xattrs) supported &= kOrdinary;
  co_return ACCESS4res(NFS4_OK, ACCESS4resok{.supported = supported, .access = *observed.result & supported});
}

static_assert(fs::kAccessRead == ACCESS4_READ && fs::kAccessLookup == ACCESS4_LOOKUP &&
              fs::kAccessModify == ACCESS4_MODIFY && fs::kAccessExtend == ACCESS4_EXTEND &&
              fs::kAccessDelete == ACCESS4_DELETE && fs::kAccessExecute == ACCESS4_EXECUTE &&
              fs::kAccessXattrRead == ACCESS4_XAREAD && fs::kAccessXattrWrite == ACCESS4_XAWRITE &&
              fs::kAccessXattrList == ACCESS4_XALIST);

}  // namespace penstock::nfs::v4
