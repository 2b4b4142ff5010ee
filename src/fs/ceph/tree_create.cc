// The methods of Tree that create objects.
#include <limits.h>

#include <cerrno>

#include "fs/acl_octets.h"
#include "fs/ceph/tree.h"
#include "fs/file_mode.h"
#include "fs/names.h"
#include "fs/new_object.h"
#include "fs/verifier_times.h"

namespace penstock::fs::ceph {
// RFC 8275 §4: libcephfs applies a default access control list instead of the client's umask.
uint32_t Tree::FirstMode(const Call& call, const Reached& directory, uint32_t mode, uint32_t umask) const {
  if (umask == 0) return mode;
  const Result<Acl> defaults = AclOf(call, directory.object, kDefaultAcl);
  return defaults && !defaults->empty() ? mode : mode & ~umask;
}

Result<Node> Tree::FinishNew(const Call& call, const Credentials& caller, const Reached& directory,
                             const std::string& name, Inode* inode, const Stat& stat, const NewAttributes& rest) const {
  const ObjectRef object = Enter(call, inode, stat);
  Node node{handles_.Of(stat.number), stat.attributes};
  const auto finish = [&]() -> Result<void> {
    if (!SetsAnything(rest)) return {};
    PENSTOCK_CHECK(Apply(call, caller, {object, stat.attributes}, rest));
    PENSTOCK_CHECK(SyncMetadata(call, object));
    PENSTOCK_TRY(node.attributes, StatOf(call, object));
    return {};
  };
  const Result<void> finished = finish();
  if (finished) return node;
  const bool is_directory = stat.attributes.type == FileType::kDirectory;
  Inode* const parent = directory.object->inode();
  is_directory ? call.client().RemoveDirectory(kAsRoot, parent, name) : call.client().Unlink(kAsRoot, parent, name);
  call.session->objects.Erase(stat.number);
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
  NewAttributes attributes = how.attributes;
  if (how.mode == CreateMode::kExclusive) {
    if (SetsTimes(attributes)) return std::unexpected(Error::kInvalid);
    const VerifierTimes times(how.verifier);
    attributes.atime = times.atime;
    attributes.mtime = times.mtime;
  }
  const uint32_t mode = FirstMode(call, directory, attributes.mode.value_or(kFileMode) & 07777, attributes.umask);
  Inode* inode = nullptr;
  OpenFile* file = nullptr;
  Stat stat;
  const int code = call.client().Create(caller, directory.object->inode(), name, mode, inode, file, stat);
  if (code < 0) return Failed(call, code);
  call.client().Close(file);
  return FinishNew(call, caller, directory, name, inode, stat, WithoutMode(attributes));
}

// Handles a name that exists: two of the three modes may accept its file.
Result<Node> Tree::ReuseFile(const Call& call, const Credentials& caller, const Reached& directory,
                             const std::string& name, const CreateHow& how) const {
  PENSTOCK_TRY(Node node, FindEntry(call, caller, directory, name));
  if (node.attributes.type != FileType::kRegular) return std::unexpected(Error::kExist);
  node.existed = true;
  if (how.mode == CreateMode::kExclusive) {
    if (!VerifierTimes(how.verifier).Match(node.attributes)) return std::unexpected(Error::kExist);
    return node;
  }
  if (how.attributes.size != 0) return node;
  PENSTOCK_TRY(const Reached file, Reach(call, node.handle));
  NewAttributes truncate;
  truncate.size = 0;
  PENSTOCK_CHECK(Apply(call, caller, file, truncate));
  PENSTOCK_CHECK(SyncMetadata(call, file.object));
  PENSTOCK_TRY(node.attributes, StatOf(call, file.object));
  return node;
}

Changed<Node> Tree::MakeDirectory(const Credentials& caller, const Handle& handle, std::string_view name,
                                  const NewAttributes& attributes) {
  const auto make = [&](const Call& call, const Reached& directory, const std::string& entry) -> Result<Node> {
    if (attributes.size) return std::unexpected(Error::kInvalid);
    const uint32_t wanted = attributes.mode.value_or(kDirectoryMode);
    const uint32_t mode = FirstMode(call, directory, wanted & 01777, attributes.umask);
    Inode* inode = nullptr;
    Stat stat;
    const int code = call.client().MakeDirectory(caller, directory.object->inode(), entry, mode, inode, stat);
    if (code < 0) return Failed(call, code);
    NewAttributes rest = WithoutMode(attributes);
    if ((wanted & 06000) != 0) rest.mode = stat.attributes.mode | (wanted & 06000);
    return FinishNew(call, caller, directory, entry, inode, stat, rest);
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
    return FinishNew(call, caller, directory, entry, inode, stat, WithoutMode(attributes));
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
    const uint32_t mode = FirstMode(call, directory, attributes.mode.value_or(kFileMode) & 07777, attributes.umask);
    const Device device = is_device ? type.device : Device{};
    Inode* inode = nullptr;
    Stat stat;
    const int code = call.client().MakeNode(caller, directory.object->inode(), entry, FormatOf(type.type) | mode,
                                            device, inode, stat);
    if (code < 0) return Failed(call, code);
    return FinishNew(call, caller, directory, entry, inode, stat, WithoutMode(attributes));
  };
  return ChangeEntry<Node>(handle, name, kDotsWhenCreating, make);
}

}  // namespace penstock::fs::ceph
