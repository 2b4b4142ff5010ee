// The methods of Tree that create objects.
#include <limits.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include <array>
#include <cerrno>

#include "base/bytes.h"
#include "fs/acl_octets.h"
#include "fs/ceph/tree.h"
#include "fs/file_mode.h"
#include "fs/names.h"
#include "fs/new_object.h"

namespace penstock::fs::ceph {
namespace {

// An exclusive Create takes three steps: it creates the file with this bit in its mode, keeps its verifier in this
// extended attribute, and sets the attributes, which removes the bit. The server may be killed after each of them. The
// second step succeeds once for each file, so that of several callers, also of other servers, one gets the file. An
// empty file with the bit and without a verifier was made for a caller that got no reply: the next exclusive Create by
// its owner takes it.
constexpr uint32_t kUnfinished = S_ISVTX;
constexpr const char* kCreateVerifier = "trusted.penstock.create-verifier";

}  // namespace

// RFC 8275 §4: libcephfs applies a default access control list instead of the client's umask. As in Linux, a file that
// gets the group of its directory does not run with this group for a caller who is not in it.
uint32_t Tree::FirstMode(const Call& call, const Credentials& caller, const Reached& directory, uint32_t mode,
                         uint32_t umask) const {
  const Attributes& parent = directory.attributes;
  const bool inherits_group = (parent.mode & S_ISGID) != 0;
  if (inherits_group && caller.uid != 0 && !IsMember(caller, parent.gid)) mode &= ~uint32_t{S_ISGID};
  if (umask == 0) return mode;
  const Result<Acl> defaults = AclOf(call, directory.object, kDefaultAcl);
  return defaults && !defaults->empty() ? mode : mode & ~umask;
}

// The mode is that of a file that is created in one step.
NewAttributes Tree::RestOfExclusive(const Call& call, const Credentials& caller, const Reached& directory,
                                    const CreateHow& how) const {
  NewAttributes rest = how.attributes;
  const uint32_t mode = FirstMode(call, caller, directory, rest.mode.value_or(kFileMode) & 07777, rest.umask);
  const Result<Acl> defaults = AclOf(call, directory.object, kDefaultAcl);
  rest.mode = defaults && !defaults->empty() ? (mode & 07000) | ModeOfAcl(Inherit(*defaults, mode)) : mode;
  return rest;
}

Result<Node> Tree::FinishNew(const Call& call, const Credentials& caller, const Reached& directory,
                             const std::string& name, const Reached& made, const NewAttributes& rest) const {
  Node node{handles_.Of(made.object->number()), made.attributes};
  const auto finish = [&]() -> Result<void> {
    if (!SetsAnything(rest)) return {};
    PENSTOCK_CHECK(Apply(call, caller, made, rest));
    PENSTOCK_CHECK(SyncMetadata(call, made.object));
    PENSTOCK_TRY(node.attributes, StatOf(call, made.object));
    return {};
  };
  const Result<void> finished = finish();
  if (finished) return node;
  Inode* const parent = directory.object->inode();
  made.object->is_directory() ? call.client().RemoveDirectory(kAsRoot, parent, name)
                              : call.client().Unlink(kAsRoot, parent, name);
  ForgetIfNameless(call, made.object->number());
  return std::unexpected(finished.error());
}

Changed<Node> Tree::Create(const Credentials& caller, const Handle& handle, std::string_view name,
                           const CreateHow& how) {
  const auto create = [&](const Call& call, const Reached& directory, const std::string& entry) -> Result<Node> {
    // Another client may remove the existing object before it is looked up here.
    for (int attempt = 0; attempt < 4; ++attempt) {
      Result<Node> created = CreateFile(call, caller, directory, entry, how);
      if (created || created.error() != Error::kExist || how.mode == CreateMode::kGuarded) return created;
      Result<Node> reused = ReuseFile(call, caller, directory, entry, how);
      if (reused || reused.error() != Error::kNoEnt) return reused;
    }
    return std::unexpected(Error::kDelay);
  };
  return ChangeEntry<Node>(handle, name, kDotsWhenCreating, create);
}

Result<Node> Tree::CreateFile(const Call& call, const Credentials& caller, const Reached& directory,
                              const std::string& name, const CreateHow& how) const {
  const bool is_exclusive = how.mode == CreateMode::kExclusive;
  if (is_exclusive && SetsTimes(how.attributes)) return std::unexpected(Error::kInvalid);
  const uint32_t mode =
      FirstMode(call, caller, directory, how.attributes.mode.value_or(kFileMode) & 07777, how.attributes.umask);
  Inode* inode = nullptr;
  OpenFile* file = nullptr;
  Stat stat;
  const int code = call.client().Create(caller, directory.object->inode(), name,
                                        is_exclusive ? mode | kUnfinished : mode, inode, file, stat);
  if (code < 0) return Failed(call, code);
  call.client().Close(file);
  const Reached made{Enter(call, inode, stat), stat.attributes};
  if (!is_exclusive) return FinishNew(call, caller, directory, name, made, WithoutMode(how.attributes));
  // If this fails, the file may be another caller's by now.
  PENSTOCK_CHECK(TakeUnfinished(call, made.object, how.verifier));
  return FinishNew(call, caller, directory, name, made, RestOfExclusive(call, caller, directory, how));
}

Result<std::optional<CreateVerifier>> Tree::VerifierOf(const Call& call, const ObjectRef& file) const {
  std::vector<std::byte> octets;
  const int code = call.client().GetXattr(kAsRoot, file->inode(), kCreateVerifier, octets);
  if (code == -ENODATA) return std::nullopt;
  if (code < 0) return Failed(call, code);
  if (octets.size() != sizeof(uint64_t)) return std::unexpected(Error::kExist);
  return CreateVerifier(LoadBig<uint64_t>(octets.data()));
}

Result<void> Tree::TakeUnfinished(const Call& call, const ObjectRef& file, CreateVerifier verifier) const {
  std::array<std::byte, sizeof(uint64_t)> octets;
  StoreBig<uint64_t>(octets.data(), verifier.value());
  const int code = call.client().SetXattr(kAsRoot, file->inode(), kCreateVerifier, octets, XATTR_CREATE);
  if (code != -EEXIST) return ResultOf(call, code);
  PENSTOCK_TRY(const std::optional<CreateVerifier> kept, VerifierOf(call, file));
  if (kept != verifier) return std::unexpected(Error::kExist);
  return {};
}

// Handles a name that exists: two of the three modes may accept its file.
Result<Node> Tree::ReuseFile(const Call& call, const Credentials& caller, const Reached& directory,
                             const std::string& name, const CreateHow& how) const {
  PENSTOCK_TRY(Node node, FindEntry(call, caller, directory, name));
  if (node.attributes.type != FileType::kRegular) return std::unexpected(Error::kExist);
  const bool is_exclusive = how.mode == CreateMode::kExclusive;
  if (is_exclusive || how.attributes.size == 0) {
    PENSTOCK_TRY(const Reached file, Reach(call, node.handle));
    NewAttributes rest;
    if (is_exclusive) {
      PENSTOCK_TRY(rest, RestOfUnfinished(call, caller, directory, file, how));
    } else {
      rest.size = 0;
    }
    PENSTOCK_CHECK(Apply(call, caller, file, rest));
    PENSTOCK_CHECK(SyncMetadata(call, file.object));
    PENSTOCK_TRY(node.attributes, StatOf(call, file.object));
  }
  node.existed = true;
  return node;
}

// Fails with kExist if the file is not that of this exclusive Create. Returns what is to be set in it.
Result<NewAttributes> Tree::RestOfUnfinished(const Call& call, const Credentials& caller, const Reached& directory,
                                             const Reached& file, const CreateHow& how) const {
  const bool is_unfinished = (file.attributes.mode & kUnfinished) != 0;
  PENSTOCK_TRY(const std::optional<CreateVerifier> kept, VerifierOf(call, file.object));
  if (!kept && is_unfinished && file.attributes.size == 0 && file.attributes.uid == caller.uid) {
    PENSTOCK_CHECK(TakeUnfinished(call, file.object, how.verifier));
  } else if (kept != how.verifier) {
    return std::unexpected(Error::kExist);
  }
  if (!is_unfinished) return NewAttributes();
  return RestOfExclusive(call, caller, directory, how);
}

Changed<Node> Tree::MakeDirectory(const Credentials& caller, const Handle& handle, std::string_view name,
                                  const NewAttributes& attributes) {
  const auto make = [&](const Call& call, const Reached& directory, const std::string& entry) -> Result<Node> {
    if (attributes.size) return std::unexpected(Error::kInvalid);
    const uint32_t wanted = attributes.mode.value_or(kDirectoryMode);
    const uint32_t mode = FirstMode(call, caller, directory, wanted & 01777, attributes.umask);
    Inode* inode = nullptr;
    Stat stat;
    const int code = call.client().MakeDirectory(caller, directory.object->inode(), entry, mode, inode, stat);
    if (code < 0) return Failed(call, code);
    NewAttributes rest = WithoutMode(attributes);
    if ((wanted & 06000) != 0) rest.mode = stat.attributes.mode | (wanted & 06000);
    const Reached made{Enter(call, inode, stat), stat.attributes};
    return FinishNew(call, caller, directory, entry, made, rest);
  };
  return ChangeEntry<Node>(handle, name, kDotsWhenCreating, make);
}

Changed<Node> Tree::MakeSymlink(const Credentials& caller, const Handle& handle, std::string_view name,
                                std::string_view target, const NewAttributes& attributes) {
  const auto make = [&](const Call& call, const Reached& directory, const std::string& entry) -> Result<Node> {
    if (target.empty() || target.find('\0') != target.npos) return std::unexpected(Error::kInvalid);
    if (target.size() >= PATH_MAX) return std::unexpected(Error::kNameTooLong);
    Inode* inode = nullptr;
    Stat stat;
    const int code =
        call.client().MakeSymlink(caller, directory.object->inode(), entry, std::string(target), inode, stat);
    if (code < 0) return Failed(call, code);
    const Reached made{Enter(call, inode, stat), stat.attributes};
    return FinishNew(call, caller, directory, entry, made, WithoutMode(attributes));
  };
  return ChangeEntry<Node>(handle, name, kDotsWhenCreating, make);
}

Changed<Node> Tree::MakeNode(const Credentials& caller, const Handle& handle, std::string_view name,
                             const NodeType& type, const NewAttributes& attributes) {
  const auto make = [&](const Call& call, const Reached& directory, const std::string& entry) -> Result<Node> {
    const bool is_device = type.type == FileType::kBlock || type.type == FileType::kCharacter;
    if (!is_device && type.type != FileType::kFifo && type.type != FileType::kSocket) {
      return std::unexpected(Error::kBadType);
    }
    // As mknod(): only root makes devices.
    if (is_device && caller.uid != 0) return std::unexpected(Error::kPerm);
    const uint32_t mode =
        FirstMode(call, caller, directory, attributes.mode.value_or(kFileMode) & 07777, attributes.umask);
    const Device device = is_device ? type.device : Device{};
    Inode* inode = nullptr;
    Stat stat;
    const int code = call.client().MakeNode(caller, directory.object->inode(), entry, FormatOf(type.type) | mode,
                                            device, inode, stat);
    if (code < 0) return Failed(call, code);
    const Reached made{Enter(call, inode, stat), stat.attributes};
    return FinishNew(call, caller, directory, entry, made, WithoutMode(attributes));
  };
  return ChangeEntry<Node>(handle, name, kDotsWhenCreating, make);
}

}  // namespace penstock::fs::ceph
