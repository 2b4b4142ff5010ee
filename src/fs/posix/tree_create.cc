// The methods of Tree that create objects.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#include "fs/acl_octets.h"
#include "fs/errno.h"
#include "fs/file_mode.h"
#include "fs/names.h"
#include "fs/new_object.h"
#include "fs/posix/tree.h"
#include "fs/posix/verifier_times.h"

namespace penstock::fs::posix {
namespace {

bool HandsDownAcl(const Object& directory) {
  return ::getxattr(ProcPath(directory.fd()).c_str(), kDefaultAcl, nullptr, 0) > 0;
}

}  // namespace

// RFC 8275 §4: if the directory has a default access control list, the kernel applies it instead of the client's umask.
// Otherwise the umask is applied here, because the process has only one for all threads.
uint32_t Tree::FirstMode(const Object& directory, uint32_t mode, uint32_t umask) {
  return umask == 0 || HandsDownAcl(directory) ? mode : mode & ~umask;
}

// The new object lacks bits until then, and keeps lacking them on a file system that does not store modes.
uint32_t Tree::UndoProcessUmask(const Object& directory, int object, uint32_t mode, uint32_t wanted) {
  const uint32_t taken = wanted & 0777 & ~mode;
  if (taken == 0 || HandsDownAcl(directory)) return 0;
  return ::chmod(ProcPath(object).c_str(), mode | taken) == 0 ? taken : 0;
}

// Attributes that are set after the creation belong to the new object: a sync of the directory does not store them on
// every file system.
Result<Node> Tree::FinishNew(const Credentials& caller, Object& directory, const std::string& name, NewAttributes rest,
                             uint32_t mode, uint32_t set_id, Touches& touches) {
  const auto finish = [&]() -> Result<Node> {
    PENSTOCK_TRY(Found found, *Find(directory, name, Patience::kMayBlock));
    const Attributes& attributes = found.stat.attributes;
    const uint32_t given = UndoProcessUmask(directory, found.fd.get(), attributes.mode, mode);
    if (set_id != 0) rest.mode = attributes.mode | given | set_id;
    PENSTOCK_CHECK(Set(caller, found.fd.get(), attributes.type, rest));
    const bool is_changed = given != 0 || SetsAnything(rest);
    PENSTOCK_TRY(const Node node, is_changed ? *FindNode(directory, name, Patience::kMayBlock)
                                             : EnterFound(directory, name, std::move(found)));
    if (const ObjectRef object = objects_.Find(node.handle)) MarkCreator(caller, *object);
    PENSTOCK_CHECK(TouchNew(node.handle, rest, touches));
    return node;
  };
  Result<Node> node = finish();
  if (!node && ::unlinkat(directory.fd(), name.c_str(), 0) != 0) {
    ::unlinkat(directory.fd(), name.c_str(), AT_REMOVEDIR);
  }
  return node;
}

bool Tree::IsNew(const Attributes& attributes) {
  constexpr int64_t kSettled = 60;
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  return now.tv_sec - attributes.born.value_or(attributes.ctime).seconds < kSettled;
}

Changed<Node> Tree::Create(const Credentials& caller, const Handle& handle, std::string_view name, const CreateHow& how,
                           Touches& touches) {
  return ChangeDirectory<Node>(handle, touches, [&](Object& directory) -> Result<Node> {
    PENSTOCK_CHECK(CheckOrdinaryName(name, NAME_MAX, kDotsWhenCreating));
    const std::string entry(name);
    // Another program may remove the existing object before it is opened here.
    for (int attempt = 0; attempt < 4; ++attempt) {
      Result<Node> created = CreateFile(caller, directory, entry, how, touches);
      if (created || created.error() != Error::kExist || how.mode == CreateMode::kGuarded) return created;
      Result<Node> reused = ReuseFile(caller, directory, entry, how, touches);
      if (reused || reused.error() != Error::kNoEnt) return reused;
    }
    return std::unexpected(Error::kDelay);
  });
}

Result<Node> Tree::CreateFile(const Credentials& caller, Object& directory, const std::string& name,
                              const CreateHow& how, Touches& touches) {
  NewAttributes attributes = how.attributes;
  if (how.mode == CreateMode::kExclusive) {
    if (SetsTimes(attributes)) return std::unexpected(Error::kInvalid);
    const VerifierTimes times(how.verifier);
    attributes.atime = times.atime;
    attributes.mtime = times.mtime;
  }
  PENSTOCK_CHECK(CheckMayCreate(caller, directory, name));
  PENSTOCK_CHECK(CheckMayGive(caller, directory, attributes));
  PENSTOCK_CHECK(CheckMode(caller, FileType::kRegular, attributes.mode));
  const uint32_t mode = FirstMode(directory, attributes.mode.value_or(kFileMode) & 07777, attributes.umask);
  FileDescriptor made = objects_.all()->Open([&] {
    const AsCaller as_caller(server_, caller);
    return ::openat(directory.fd(), name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC,
                    mode);
  });
  if (!made) return LastError();
  SharedFile file = objects_.all()->Share(std::move(made));
  const auto give_up = [&](Error error) -> Result<Node> {
    ::unlinkat(directory.fd(), name.c_str(), 0);
    return std::unexpected(error);
  };
  if (attributes.size.value_or(0) != 0) {
    if (*attributes.size > INT64_MAX) return give_up(Error::kFileTooBig);
    if (::ftruncate(file->get(), static_cast<off_t>(*attributes.size)) != 0) return give_up(FromErrno(errno));
  }
  Result<Stat> stat = posix::StatOf(file->get(), parts_.volume);
  if (!stat) return give_up(stat.error());
  const uint32_t given = UndoProcessUmask(directory, file->get(), stat->attributes.mode, mode);
  const NewAttributes rest = WithoutMode(attributes);
  if (const Result<void> set = Set(caller, file->get(), FileType::kRegular, rest); !set) return give_up(set.error());
  if (given != 0 || SetsAnything(rest)) stat = posix::StatOf(file->get(), parts_.volume);
  if (!stat) return give_up(stat.error());
  Result<Node> node = EnterNew(caller, directory, name, std::move(file), *stat);
  if (!node) return give_up(node.error());
  if (const auto touched = TouchNew(node->handle, rest, touches); !touched) return give_up(touched.error());
  return node;
}

Result<void> Tree::TouchNew(const Handle& handle, const NewAttributes& set, Touches& touches) {
  if (!SetsAnything(set)) return {};
  PENSTOCK_TRY(const ObjectRef object, *Reach(handle, Patience::kMayBlock));
  PENSTOCK_TRY(const SharedFile file, OpenToSync(*object));
  Touch(object, file, touches);
  return {};
}

Result<Node> Tree::EnterNew(const Credentials& caller, Object& directory, const std::string& name, SharedFile file,
                            const Stat& stat) {
  PENSTOCK_TRY(const Handle handle, parts_.handles->HandleOf(file->get(), stat, directory.handle(), name));
  PENSTOCK_TRY(FileDescriptor path, objects_.all()->OpenResult([&] { return Reopen(file->get(), O_PATH); }));
  PENSTOCK_TRY(const ObjectRef object, Enter(handle, std::move(path), FileType::kRegular));
  object->Adopt(std::move(file));
  MarkCreator(caller, *object);
  return Node{handle, stat.attributes};
}

// Handles a name that exists: two of the three modes may accept its file.
Result<Node> Tree::ReuseFile(const Credentials& caller, Object& directory, const std::string& name,
                             const CreateHow& how, Touches& touches) {
  PENSTOCK_TRY(Node node, *FindNode(directory, name, Patience::kMayBlock));
  if (node.attributes.type != FileType::kRegular) return std::unexpected(Error::kExist);
  if (how.mode == CreateMode::kExclusive) {
    if (!VerifierTimes(how.verifier).Match(node.attributes)) return std::unexpected(Error::kExist);
    node.existed = true;
    return node;
  }
  PENSTOCK_TRY(const Stat parent, StatOf(directory));
  if (!RightsTo(directory, parent.attributes, caller).execute) return std::unexpected(Error::kAccess);
  node.existed = true;
  if (how.attributes.size != 0) return node;
  PENSTOCK_TRY(const ObjectRef object, *Reach(node.handle, Patience::kMayBlock));
  PENSTOCK_TRY(const SharedFile file, OpenToSync(*object));
  WeakCacheData around;
  {
    const std::lock_guard lock(object->changing);
    PENSTOCK_TRY(const Stat stat, StatOf(*object));
    around.before = BeforeOf(stat.attributes);
    NewAttributes truncate;
    truncate.size = 0;
    const Result<void> truncated = Apply(caller, *object, stat, truncate);
    NoteAfter(*object, stat.attributes, around, truncated.has_value());
    PENSTOCK_CHECK(truncated);
  }
  Touch(object, file, touches);
  if (!around.after) return std::unexpected(Error::kStale);
  node.attributes = *around.after;
  return node;
}

Changed<Node> Tree::MakeDirectory(const Credentials& caller, const Handle& handle, std::string_view name,
                                  const NewAttributes& attributes, Touches& touches) {
  return ChangeDirectory<Node>(handle, touches, [&](Object& directory) -> Result<Node> {
    PENSTOCK_CHECK(CheckOrdinaryName(name, NAME_MAX, kDotsWhenCreating));
    if (attributes.size) return std::unexpected(Error::kInvalid);
    const std::string entry(name);
    PENSTOCK_CHECK(CheckMayCreate(caller, directory, entry));
    PENSTOCK_CHECK(CheckMayGive(caller, directory, attributes));
    const uint32_t mode = FirstMode(directory, attributes.mode.value_or(kDirectoryMode) & 01777, attributes.umask);
    {
      const AsCaller as_caller(server_, caller);
      if (::mkdirat(directory.fd(), entry.c_str(), mode) != 0) return LastError();
    }
    const uint32_t set_id = attributes.mode.value_or(0) & 06000;
    return FinishNew(caller, directory, entry, WithoutMode(attributes), mode, set_id, touches);
  });
}

Changed<Node> Tree::MakeSymlink(const Credentials& caller, const Handle& handle, std::string_view name,
                                std::string_view target, const NewAttributes& attributes, Touches& touches) {
  return ChangeDirectory<Node>(handle, touches, [&](Object& directory) -> Result<Node> {
    PENSTOCK_CHECK(CheckOrdinaryName(name, NAME_MAX, kDotsWhenCreating));
    if (target.empty() || target.find('\0') != target.npos) return std::unexpected(Error::kInvalid);
    const std::string entry(name);
    PENSTOCK_CHECK(CheckMayCreate(caller, directory, entry));
    PENSTOCK_CHECK(CheckMayGive(caller, directory, attributes));
    {
      const AsCaller as_caller(server_, caller);
      if (::symlinkat(std::string(target).c_str(), directory.fd(), entry.c_str()) != 0) return LastError();
    }
    return FinishNew(caller, directory, entry, WithoutMode(attributes), 0, 0, touches);
  });
}

Changed<Node> Tree::MakeNode(const Credentials& caller, const Handle& handle, std::string_view name,
                             const NodeType& type, const NewAttributes& attributes, Touches& touches) {
  return ChangeDirectory<Node>(handle, touches, [&](Object& directory) -> Result<Node> {
    const bool device = type.type == FileType::kBlock || type.type == FileType::kCharacter;
    if (!device && type.type != FileType::kFifo && type.type != FileType::kSocket) {
      return std::unexpected(Error::kBadType);
    }
    PENSTOCK_CHECK(CheckOrdinaryName(name, NAME_MAX, kDotsWhenCreating));
    const std::string entry(name);
    PENSTOCK_CHECK(CheckMayCreate(caller, directory, entry));
    PENSTOCK_CHECK(CheckMayGive(caller, directory, attributes));
    PENSTOCK_CHECK(CheckMode(caller, type.type, attributes.mode));
    const uint32_t wanted = attributes.mode.value_or(kFileMode) & 07777;
    const uint32_t mode = FirstMode(directory, wanted, attributes.umask);
    const dev_t number = device ? makedev(type.device.major, type.device.minor) : 0;
    {
      const AsCaller as_caller(server_, caller);
      if (::mknodat(directory.fd(), entry.c_str(), FormatOf(type.type) | mode, number) != 0) return LastError();
    }
    return FinishNew(caller, directory, entry, WithoutMode(attributes), mode, 0, touches);
  });
}

}  // namespace penstock::fs::posix
