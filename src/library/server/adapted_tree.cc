// The frame of AdaptedTree, and its methods for handles, attributes, rights, and what is beside data and names.
#include "library/server/adapted_tree.h"

#include <algorithm>
#include <array>
#include <utility>

#include "fs/names.h"

namespace penstock::library {

using fs::Attributes;
using fs::Error;
using fs::FileType;
using fs::Handle;
using fs::NewAttributes;
using fs::RequestContext;
using fs::Result;
using fs::SetTime;

namespace {

constexpr size_t kTagSize = sizeof(uint64_t);
static_assert(kTagSize + PENSTOCK_HANDLE_SIZE <= Handle::kMaxSize);

constexpr uint32_t kSetUser = 04000;
constexpr uint32_t kSetGroup = 02000;
constexpr uint32_t kSticky = 01000;

constexpr fs::AccessMask kChanging = fs::kAccessModify | fs::kAccessExtend | fs::kAccessDelete | fs::kAccessXattrWrite;

ConstBytes OctetsOf(const penstock_handle& handle) {
  return {reinterpret_cast<const std::byte*>(handle.octets), handle.size};
}

// The mode after a write by another caller than root, or after a change of the owner.
uint32_t WithoutSetId(uint32_t mode) {
  mode &= ~kSetUser;
  return (mode & 0010) != 0 ? mode & ~kSetGroup : mode;
}

void Set(const SetTime& from, unsigned given, unsigned now, penstock_time& time, unsigned& set) {
  if (from.how == SetTime::How::kGiven) {
    set |= given;
    time = {from.time.seconds, from.time.nanoseconds};
  }
  if (from.how == SetTime::How::kServerTime) set |= now;
}

penstock_new_attributes ForHost(const NewAttributes& values) {
  penstock_new_attributes to = PENSTOCK_NEW_ATTRIBUTES_INIT;
  const auto copy = [&](const auto& from, unsigned bit, auto& value) {
    if (!from) return;
    value = *from;
    to.set |= bit;
  };
  copy(values.mode, PENSTOCK_SET_MODE, to.mode);
  copy(values.uid, PENSTOCK_SET_UID, to.uid);
  copy(values.gid, PENSTOCK_SET_GID, to.gid);
  copy(values.size, PENSTOCK_SET_LENGTH, to.length);
  Set(values.atime, PENSTOCK_SET_ACCESSED, PENSTOCK_SET_ACCESSED_NOW, to.accessed, to.set);
  Set(values.mtime, PENSTOCK_SET_MODIFIED, PENSTOCK_SET_MODIFIED_NOW, to.modified, to.set);
  return to;
}

fs::Properties PropertiesOf(const Embedded& files) {
  const penstock_file_system_options& options = files.options();
  const penstock_file_system_ops& ops = files.ops();
  fs::Properties properties;
  properties.max_file_size = options.max_file_size;
  properties.time_granularity = {0, options.granularity_ns};
  properties.link_max = options.link_max;
  properties.name_max = options.name_max;
  properties.hard_links = ops.link != nullptr;
  properties.symlinks = ops.make_symlink != nullptr;
  properties.can_set_time = ops.set_attributes != nullptr;
  properties.case_insensitive = files.has(PENSTOCK_FS_CASE_INSENSITIVE);
  properties.read_only = files.is_read_only();
  properties.xattrs = ops.get_xattr != nullptr;
  return properties;
}

}  // namespace

AdaptedTree::AdaptedTree(std::shared_ptr<const Embedded> files, const SipKey& key, uint64_t fsid)
    : files_(std::move(files)), key_(key), fsid_(fsid), properties_(PropertiesOf(*files_)) {}

Result<void> AdaptedTree::FindRoot() {
  const RequestContext context{.credentials = {.uid = 0, .gid = 0, .groups = {}}};
  EmbeddedCalls calls(*files_, context);
  PENSTOCK_TRY(root_, calls.Root());
  PENSTOCK_TRY(const Attributes attributes, calls.GetAttributes(root_));
  if (attributes.type != FileType::kDirectory) return std::unexpected(Error::kNotDir);
  return {};
}

// ---- handles
//
//      0 ... 7                    8 ...
//  +---------------------------+---------------------------+
//  | tag: SipHash of the rest  |     the host's handle     |
//  +---------------------------+---------------------------+

Handle AdaptedTree::HandleOf(const penstock_handle& handle) const {
  std::array<std::byte, Handle::kMaxSize> octets{};
  StoreBig(octets.data(), TagOf(OctetsOf(handle)));
  CopyBytes(Bytes(octets).subspan(kTagSize), OctetsOf(handle));
  return *Handle::FromBytes(ConstBytes(octets).first(kTagSize + handle.size));
}

Result<penstock_handle> AdaptedTree::Verified(const Handle& handle) const {
  if (handle.size() <= kTagSize) return std::unexpected(Error::kBadHandle);
  const ConstBytes octets = handle.bytes().subspan(kTagSize);
  if (octets.size() > PENSTOCK_HANDLE_SIZE || LoadBig<uint64_t>(handle.bytes().data()) != TagOf(octets)) {
    return std::unexpected(Error::kBadHandle);
  }
  penstock_handle verified{};
  verified.size = static_cast<uint32_t>(octets.size());
  CopyBytes(std::as_writable_bytes(std::span(verified.octets)), octets);
  return verified;
}

Result<fs::Identity> AdaptedTree::Identify(const Handle& object) const {
  PENSTOCK_TRY(const penstock_handle handle, Verified(object));
  return fs::Identity{files_->volume(), *Handle::FromBytes(OctetsOf(handle))};
}

bool AdaptedTree::IsRoot(const penstock_handle& handle) const { return Equal(OctetsOf(handle), OctetsOf(root_)); }

Result<Attributes> AdaptedTree::AttributesOf(EmbeddedCalls& calls, const penstock_handle& object) const {
  PENSTOCK_TRY(Attributes attributes, calls.GetAttributes(object));
  attributes.fsid = fsid_;
  return attributes;
}

Result<AdaptedTree::Object> AdaptedTree::Reach(EmbeddedCalls& calls, const Handle& handle) const {
  PENSTOCK_TRY(const penstock_handle verified, Verified(handle));
  PENSTOCK_TRY(const Attributes attributes, AttributesOf(calls, verified));
  return Object{verified, attributes};
}

// ---- rights

fs::Rights AdaptedTree::RightsTo(const EmbeddedCalls& calls, const Object& object) const {
  if (!checks()) return {true, true, true};
  return fs::RightsOf(object.attributes, calls.caller());
}

bool AdaptedTree::Owns(const EmbeddedCalls& calls, const Object& object) const {
  return !checks() || fs::IsOwner(object.attributes, calls.caller());
}

Result<void> AdaptedTree::MayRead(const EmbeddedCalls& calls, const Object& file) const {
  PENSTOCK_CHECK(fs::CheckRegular(file.attributes.type));
  if (fs::MayReadData(file.attributes, calls.caller(), RightsTo(calls, file))) return {};
  return std::unexpected(Error::kAccess);
}

Result<void> AdaptedTree::MayWrite(const EmbeddedCalls& calls, const Object& file) const {
  PENSTOCK_CHECK(fs::CheckRegular(file.attributes.type));
  if (fs::MayWriteData(file.attributes, calls.caller(), RightsTo(calls, file))) return {};
  return std::unexpected(Error::kAccess);
}

Result<void> AdaptedTree::MayChangeEntries(const EmbeddedCalls& calls, const Object& directory) const {
  const fs::Rights rights = RightsTo(calls, directory);
  if (rights.write && rights.execute) return {};
  return std::unexpected(Error::kAccess);
}

Result<void> AdaptedTree::MayTakeAway(const EmbeddedCalls& calls, const Object& directory, const Object& entry) const {
  PENSTOCK_CHECK(MayChangeEntries(calls, directory));
  const bool sticky = (directory.attributes.mode & kSticky) != 0;
  if (sticky && !Owns(calls, directory) && !Owns(calls, entry)) return std::unexpected(Error::kPerm);
  return {};
}

Result<void> AdaptedTree::MaySet(const EmbeddedCalls& calls, const Object& object, const NewAttributes& values) const {
  if (!checks()) return {};
  const fs::Credentials& caller = calls.caller();
  const Attributes& attributes = object.attributes;
  const bool owner = fs::IsOwner(attributes, caller);
  const auto is_given = [](const SetTime& time) { return time.how == SetTime::How::kGiven; };
  if (values.uid && caller.uid != 0 && (!owner || *values.uid != attributes.uid)) return std::unexpected(Error::kPerm);
  if (values.gid && caller.uid != 0 &&
      (!owner || (*values.gid != attributes.gid && !fs::IsMember(caller, *values.gid)))) {
    return std::unexpected(Error::kPerm);
  }
  if (values.mode && !owner) return std::unexpected(Error::kPerm);
  if ((is_given(values.atime) || is_given(values.mtime)) && !owner) return std::unexpected(Error::kPerm);
  const fs::Rights rights = fs::RightsOf(attributes, caller);
  if (fs::SetsTimes(values) && !owner && !rights.write) return std::unexpected(Error::kAccess);
  if (values.size && !fs::MayWriteData(attributes, caller, rights)) return std::unexpected(Error::kAccess);
  return {};
}

// ---- attributes

Result<Attributes> AdaptedTree::GetAttributes(const RequestContext& context, const Handle& object) {
  EmbeddedCalls calls(*files_, context);
  PENSTOCK_TRY(const Object found, Reach(calls, object));
  return found.attributes;
}

Result<void> AdaptedTree::Apply(EmbeddedCalls& calls, const Object& object, const NewAttributes& asked) {
  const Attributes& attributes = object.attributes;
  const bool is_root = calls.caller().uid == 0;
  NewAttributes values = asked;
  if (values.size) {
    PENSTOCK_CHECK(fs::CheckRegular(attributes.type));
    if (*values.size > properties_.max_file_size) return std::unexpected(Error::kFileTooBig);
  }
  PENSTOCK_CHECK(MaySet(calls, object, values));
  if (attributes.type == FileType::kSymlink) values.mode.reset();  // a link has none that could be set
  if (!values.mode && attributes.type != FileType::kDirectory) {
    const bool loses_set_id = values.uid || values.gid || (values.size && !is_root);
    const uint32_t mode = WithoutSetId(attributes.mode);
    if (loses_set_id && mode != attributes.mode) values.mode = mode;
  }
  if (values.mode) {
    *values.mode &= 07777;
    // chmod(2): the group of a program that runs with its rights must be one of the owner's.
    const uint32_t group = values.gid.value_or(attributes.gid);
    if (checks() && !is_root && !fs::IsMember(calls.caller(), group)) *values.mode &= ~kSetGroup;
  }
  const penstock_new_attributes to = ForHost(values);
  if (to.set == 0) return {};
  if (!files_->ops().set_attributes) return std::unexpected(Missing());
  return calls.SetAttributes(object.handle, to);
}

fs::Changed<void> AdaptedTree::SetAttributes(const RequestContext& context, const Handle& object,
                                             const NewAttributes& values, std::optional<fs::Timestamp> guard) {
  return Change<void>(context, object, [&](EmbeddedCalls& calls, const Object& found) -> Result<void> {
    if (guard && *guard != found.attributes.ctime) return std::unexpected(Error::kNotSync);
    return Apply(calls, found, values);
  });
}

Result<void> AdaptedTree::DropSetId(EmbeddedCalls& calls, const Object& file) {
  const uint32_t mode = WithoutSetId(file.attributes.mode);
  if (calls.caller().uid == 0 || mode == file.attributes.mode || !files_->ops().set_attributes) return {};
  penstock_new_attributes to = PENSTOCK_NEW_ATTRIBUTES_INIT;
  to.set = PENSTOCK_SET_MODE;
  to.mode = mode;
  return calls.SetAttributes(file.handle, to);
}

Result<penstock_new_attributes> AdaptedTree::FirstAttributes(const EmbeddedCalls& calls, const Object& directory,
                                                             FileType type, const NewAttributes& asked) const {
  const fs::Credentials& caller = calls.caller();
  const bool is_root = caller.uid == 0;
  const bool inherits_group = (directory.attributes.mode & kSetGroup) != 0;
  const uint32_t usual_group = inherits_group ? directory.attributes.gid : caller.gid;
  NewAttributes values = asked;
  if (type == FileType::kDirectory && values.size) return std::unexpected(Error::kInvalid);
  if (values.size.value_or(0) > properties_.max_file_size) return std::unexpected(Error::kFileTooBig);
  if (values.size == 0) values.size.reset();
  if (checks() && !is_root) {
    if (values.uid.value_or(caller.uid) != caller.uid) return std::unexpected(Error::kPerm);
    const uint32_t group = values.gid.value_or(usual_group);
    if (group != usual_group && !fs::IsMember(caller, group)) return std::unexpected(Error::kPerm);
  }
  values.uid = values.uid.value_or(caller.uid);
  values.gid = values.gid.value_or(usual_group);
  if (type == FileType::kSymlink) {
    values.mode = 0777;
  } else {
    const uint32_t usual = type == FileType::kDirectory ? 0700 : 0600;
    values.mode = values.mode.value_or(usual) & 07777 & ~asked.umask;
    if (checks() && !is_root && !fs::IsMember(caller, *values.gid)) *values.mode &= ~kSetGroup;
    if (inherits_group && type == FileType::kDirectory) *values.mode |= kSetGroup;
  }
  return ForHost(values);
}

fs::Observed<fs::AccessMask> AdaptedTree::Access(const RequestContext& context, const Handle& object,
                                                 fs::AccessMask wanted) {
  const auto look = [&](EmbeddedCalls& calls, const Object& found) -> Result<fs::AccessMask> {
    const fs::AccessMask never = properties_.read_only ? kChanging : 0;
    if (files_->ops().access) {
      PENSTOCK_TRY(const fs::AccessMask granted, calls.Access(found.handle, wanted));
      return granted & ~never;
    }
    return wanted & ~never & fs::AccessOf(found.attributes.type, RightsTo(calls, found));
  };
  return Observe<fs::AccessMask>(context, object, look);
}

fs::Observed<fs::Space> AdaptedTree::GetSpace(const RequestContext& context, const Handle& object) {
  return Observe<fs::Space>(context, object,
                            [](EmbeddedCalls& calls, const Object& found) { return calls.GetSpace(found.handle); });
}

// ---- extended attributes

Result<void> AdaptedTree::CheckXattr(const Object& object, std::string_view name, Error other_types) const {
  if (!properties_.xattrs) return std::unexpected(Error::kNotSupported);
  PENSTOCK_CHECK(fs::CheckXattrName(name));
  const FileType type = object.attributes.type;
  if (type != FileType::kRegular && type != FileType::kDirectory) return std::unexpected(other_types);
  return {};
}

fs::Observed<std::vector<std::byte>> AdaptedTree::GetXattr(const RequestContext& context, const Handle& object,
                                                           std::string_view name) {
  using Value = std::vector<std::byte>;
  return Observe<Value>(context, object, [&](EmbeddedCalls& calls, const Object& found) -> Result<Value> {
    PENSTOCK_CHECK(CheckXattr(found, name, Error::kNoXattr));
    if (!RightsTo(calls, found).read) return std::unexpected(Error::kAccess);
    return calls.GetXattr(found.handle, std::string(name));
  });
}

fs::Changed<void> AdaptedTree::SetXattr(const RequestContext& context, const Handle& object, std::string_view name,
                                        ConstBytes value, fs::XattrMode mode) {
  constexpr size_t kLongest = 64 << 10;  // as in Linux
  return Change<void>(context, object, [&](EmbeddedCalls& calls, const Object& found) -> Result<void> {
    PENSTOCK_CHECK(CheckXattr(found, name, Error::kPerm));
    if (!RightsTo(calls, found).write) return std::unexpected(Error::kAccess);
    if (value.size() > kLongest) return std::unexpected(Error::kXattrTooBig);
    if (!files_->ops().set_xattr) return std::unexpected(Missing());
    return calls.SetXattr(found.handle, std::string(name), value, mode);
  });
}

fs::Changed<void> AdaptedTree::RemoveXattr(const RequestContext& context, const Handle& object, std::string_view name) {
  return Change<void>(context, object, [&](EmbeddedCalls& calls, const Object& found) -> Result<void> {
    PENSTOCK_CHECK(CheckXattr(found, name, Error::kPerm));
    if (!RightsTo(calls, found).write) return std::unexpected(Error::kAccess);
    if (!files_->ops().remove_xattr) return std::unexpected(Missing());
    return calls.RemoveXattr(found.handle, std::string(name));
  });
}

fs::Observed<std::vector<std::string>> AdaptedTree::ListXattrs(const RequestContext& context, const Handle& object) {
  using Names = std::vector<std::string>;
  return Observe<Names>(context, object, [&](EmbeddedCalls& calls, const Object& found) -> Result<Names> {
    if (!properties_.xattrs || !files_->ops().list_xattrs) return std::unexpected(Error::kNotSupported);
    const FileType type = found.attributes.type;
    if (type != FileType::kRegular && type != FileType::kDirectory) return std::unexpected(Error::kNoXattr);
    if (!RightsTo(calls, found).read) return std::unexpected(Error::kAccess);
    return calls.ListXattrs(found.handle);
  });
}

// ---- access control lists: those that a mode can express

fs::Observed<fs::Acls> AdaptedTree::GetAcls(const RequestContext& context, const Handle& object) {
  return Observe<fs::Acls>(context, object, [](EmbeddedCalls&, const Object& found) -> Result<fs::Acls> {
    fs::Acls acls;
    acls.access = fs::AclOfMode(found.attributes.mode);
    return acls;
  });
}

fs::Changed<void> AdaptedTree::SetAcls(const RequestContext& context, const Handle& object, const fs::NewAcls& acls) {
  return Change<void>(context, object, [&](EmbeddedCalls& calls, const Object& found) -> Result<void> {
    if (acls.access && !fs::IsValid(*acls.access)) return std::unexpected(Error::kInvalid);
    const bool gives_defaults = acls.defaults && !acls.defaults->empty();
    if (gives_defaults && (!found.is_directory() || !fs::IsValid(*acls.defaults))) {
      return std::unexpected(Error::kInvalid);
    }
    const bool is_link = found.attributes.type == FileType::kSymlink;
    if (is_link || gives_defaults || (acls.access && !fs::IsMinimal(*acls.access))) {
      return std::unexpected(Error::kNotSupported);
    }
    NewAttributes values;
    if (acls.access) values.mode = (found.attributes.mode & 07000) | fs::ModeOfAcl(*acls.access);
    return Apply(calls, found, values);
  });
}

}  // namespace penstock::library
