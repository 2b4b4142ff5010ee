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

// An exclusive Create takes three steps: it creates the file with this mode, keeps its verifier in this extended
// attribute, and sets the attributes. The server may be killed after each of them. The second step succeeds once for
// each file, so that of several callers, also of other servers, one gets the file. An empty file that nobody has
// changed since it was created with this mode was made for a caller that got no reply: the next Create by its owner
// takes it.
constexpr uint32_t kUnfinished = S_ISVTX;
constexpr const char* kCreateVerifier = "trusted.penstock.create-verifier";

bool IsUntouched(const Attributes& file) {
  return file.mode == kUnfinished && file.size == 0 && file.nlink == 1 && file.ctime == file.born;
}

}  // namespace

// RFC 8275 §4: libcephfs applies a default access control list instead of the client's umask. As in Linux, a file that
// gets the group of its directory does not run with this group for a caller who is not in it.
Result<uint32_t> Tree::FirstMode(const Call& call, const Credentials& caller, const Reached& directory, uint32_t mode,
                                 uint32_t umask) const {
  const Attributes& parent = directory.attributes;
  const bool inherits_group = (parent.mode & S_ISGID) != 0;
  if (inherits_group && caller.uid != 0 && !IsMember(caller, parent.gid)) mode &= ~uint32_t{S_ISGID};
  if (umask == 0) return mode;
  PENSTOCK_TRY(const Acl defaults, AclOf(call, directory.object, kDefaultAcl));
  return defaults.empty() ? mode & ~umask : mode;
}

void Tree::TakeBack(const Call& call, const Reached& directory, const std::string& name, const ObjectRef& made) const {
  // Another client may have removed it, and made an object of its own.
  const auto number = NumberOfEntry(call, directory, name);
  if (!number || *number != made->number()) return;
  Inode* const parent = directory.object->inode();
  made->is_directory() ? call.client().RemoveDirectory(kAsRoot, parent, name)
                       : call.client().Unlink(kAsRoot, parent, name);
  ForgetIfNameless(call, made->number());
}

Result<Node> Tree::FinishNew(const Call& call, const Credentials& caller, const Reached& directory,
                             const std::string& name, const Reached& made, const NewAttributes& rest) const {
  Node node{handles_.Of(made.object->number()), made.attributes};
  if (!SetsAnything(rest)) return node;
  Result<void> finished = Apply(call, caller, made, rest);
  if (finished) finished = SyncMetadata(call, made.object);
  if (!finished) {
    TakeBack(call, directory, name, made.object);
    return std::unexpected(finished.error());
  }
  const std::optional<Attributes> after = After(call, made.object, Client::Freshness::kCurrent);
  if (!after) return std::unexpected(Error::kDelay);
  node.attributes = *after;
  return node;
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
  uint32_t mode = kUnfinished;
  if (!is_exclusive) {
    const uint32_t wanted = how.attributes.mode.value_or(kFileMode) & 07777;
    PENSTOCK_TRY(mode, FirstMode(call, caller, directory, wanted, how.attributes.umask));
  }
  Inode* inode = nullptr;
  OpenFile* file = nullptr;
  Stat stat;
  const int code = call.client().Create(caller, directory.object->inode(), name, mode, inode, file, stat);
  if (code < 0) return Failed(call, code);
  call.client().Close(file);
  const Reached made{Enter(call, inode, stat), stat.attributes};
  if (!is_exclusive) return FinishNew(call, caller, directory, name, made, WithoutMode(how.attributes));
  PENSTOCK_CHECK(TakeUnfinished(call, made.object, how.verifier));
  return FinishExclusive(call, caller, directory, name, made.object, how);
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

// The file has the verifier. An earlier attempt of the same caller, at another server, may have finished it.
Result<Node> Tree::FinishExclusive(const Call& call, const Credentials& caller, const Reached& directory,
                                   const std::string& name, const ObjectRef& object, const CreateHow& how) const {
  const Result<Attributes> attributes = StatOf(call, object);
  // Another client has removed it.
  if (!attributes) return std::unexpected(attributes.error() == Error::kStale ? Error::kDelay : attributes.error());
  if (attributes->mode == kUnfinished) {
    NewAttributes rest = how.attributes;
    // The file is empty, or has what the caller has written since.
    if (rest.size == 0) rest.size.reset();
    // As for a file that nobody has written: see ReuseFile().
    if (rest.size && attributes->born) rest.mtime = {SetTime::How::kGiven, *attributes->born};
    PENSTOCK_TRY(rest.mode, ModeOfNew(call, caller, directory, how.attributes));
    if (const auto applied = Apply(call, caller, {object, *attributes}, rest); !applied) {
      if (applied.error() != Error::kDelay && applied.error() != Error::kIo) TakeBack(call, directory, name, object);
      return std::unexpected(applied.error());
    }
  }
  PENSTOCK_CHECK(SyncMetadata(call, object));
  PENSTOCK_TRY(const Attributes after, StatOf(call, object));
  return Node{handles_.Of(object->number()), after};
}

// That of a file that is created in one step.
Result<uint32_t> Tree::ModeOfNew(const Call& call, const Credentials& caller, const Reached& directory,
                                 const NewAttributes& wanted) const {
  PENSTOCK_TRY(const uint32_t mode,
               FirstMode(call, caller, directory, wanted.mode.value_or(kFileMode) & 07777, wanted.umask));
  PENSTOCK_TRY(const Acl defaults, AclOf(call, directory.object, kDefaultAcl));
  return defaults.empty() ? mode : (mode & 07000) | ModeOfAcl(Inherit(defaults, mode));
}

// Handles a name that exists: two of the three modes may accept its file.
Result<Node> Tree::ReuseFile(const Call& call, const Credentials& caller, const Reached& directory,
                             const std::string& name, const CreateHow& how) const {
  PENSTOCK_TRY(Node node, FindEntry(call, caller, directory, name));
  if (node.attributes.type != FileType::kRegular) return std::unexpected(Error::kExist);
  const bool is_exclusive = how.mode == CreateMode::kExclusive;
  const bool may_be_unfinished = node.attributes.mode == kUnfinished;
  if (is_exclusive || may_be_unfinished || how.attributes.size == 0) {
    PENSTOCK_TRY(const Reached file, Reach(call, node.handle));
    std::optional<CreateVerifier> kept;
    if (is_exclusive || may_be_unfinished) {
      PENSTOCK_TRY(kept, VerifierOf(call, file.object));
    }
    const bool is_free = !kept && IsUntouched(file.attributes) && file.attributes.uid == UidOf(caller);
    if (is_exclusive) {
      // The verifier counts until the caller writes, or sets the times (RFC 1813 §3.3.8).
      const bool is_new =
          file.attributes.size == how.attributes.size.value_or(0) && file.attributes.mtime == file.attributes.born;
      if (!is_free && (!is_new || kept != how.verifier)) return std::unexpected(Error::kExist);
      if (is_free) {
        PENSTOCK_CHECK(TakeUnfinished(call, file.object, how.verifier));
      }
      PENSTOCK_TRY(node, FinishExclusive(call, caller, directory, name, file.object, how));
    } else {
      NewAttributes rest;
      if (is_free) {
        PENSTOCK_TRY(rest.mode, ModeOfNew(call, caller, directory, how.attributes));
      }
      if (how.attributes.size == 0) rest.size = 0;
      PENSTOCK_CHECK(Apply(call, caller, file, rest));
      PENSTOCK_CHECK(SyncMetadata(call, file.object));
      PENSTOCK_TRY(node.attributes, StatOf(call, file.object));
    }
  }
  node.existed = true;
  return node;
}

Changed<Node> Tree::MakeDirectory(const Credentials& caller, const Handle& handle, std::string_view name,
                                  const NewAttributes& attributes) {
  const auto make = [&](const Call& call, const Reached& directory, const std::string& entry) -> Result<Node> {
    if (attributes.size) return std::unexpected(Error::kInvalid);
    const uint32_t wanted = attributes.mode.value_or(kDirectoryMode);
    PENSTOCK_TRY(const uint32_t mode, FirstMode(call, caller, directory, wanted & 01777, attributes.umask));
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
    const uint32_t wanted = attributes.mode.value_or(kFileMode) & 07777;
    PENSTOCK_TRY(const uint32_t mode, FirstMode(call, caller, directory, wanted, attributes.umask));
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
