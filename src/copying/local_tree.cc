#include "copying/local_tree.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "base/file_io.h"
#include "base/result.h"
#include "copying/local_extras.h"
#include "copying/local_file.h"
#include "idmap/domain.h"

namespace penstock::copying {
namespace {

FileType TypeOf(mode_t mode) {
  switch (mode & S_IFMT) {
    case S_IFREG:
      return FileType::kRegular;
    case S_IFDIR:
      return FileType::kDirectory;
    case S_IFLNK:
      return FileType::kSymlink;
    case S_IFBLK:
      return FileType::kBlockDevice;
    case S_IFCHR:
      return FileType::kCharacterDevice;
    case S_IFSOCK:
      return FileType::kSocket;
    case S_IFIFO:
      return FileType::kFifo;
    default:
      return FileType::kOther;
  }
}

mode_t TypeBits(FileType type) {
  switch (type) {
    case FileType::kBlockDevice:
      return S_IFBLK;
    case FileType::kCharacterDevice:
      return S_IFCHR;
    case FileType::kSocket:
      return S_IFSOCK;
    default:
      return S_IFIFO;
  }
}

std::unexpected<Error> Failure(int number) { return std::unexpected(LocalError(number)); }

using Opened = Result<std::shared_ptr<const HeldDirectory>>;

// Blocks.
Opened OpenAt(int directory, const std::string& name, int flags) {
  FileDescriptor fd(::openat(directory, name.c_str(), flags | O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  // A directory that cannot be read can still be written into.
  if (!fd && errno == EACCES) {
    fd = FileDescriptor(::openat(directory, name.c_str(), flags | O_PATH | O_DIRECTORY | O_CLOEXEC));
  }
  struct stat status{};
  if (!fd || ::fstat(fd.get(), &status) != 0) return Failure(errno);
  return std::make_shared<const HeldDirectory>(std::move(fd), status.st_dev, status.st_ino);
}

// Blocks.
Result<std::vector<Entry>> ListAll(const HeldDirectory& directory) {
  // fdopendir() takes a descriptor with a position of its own.
  const int fd = ::openat(directory.fd.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return Failure(errno);
  const std::unique_ptr<DIR, int (*)(DIR*)> listing(::fdopendir(fd), &::closedir);
  if (!listing) {
    const int error = errno;
    ::close(fd);
    return Failure(error);
  }
  std::vector<Entry> entries;
  for (;;) {
    errno = 0;
    const dirent* const found = ::readdir(listing.get());
    if (!found && errno != 0) return Failure(errno);
    if (!found) return entries;
    const std::string_view name = found->d_name;
    if (name == "." || name == "..") continue;
    struct stat status{};
    if (::fstatat(fd, found->d_name, &status, AT_SYMLINK_NOFOLLOW) != 0) {
      // Somebody has removed it.
      if (errno == ENOENT) continue;
      return Failure(errno);
    }
    entries.push_back({.name = std::string(name), .attributes = AttributesOf(status)});
  }
}

struct OpenedFile {
  FileDescriptor fd{-1};
  struct stat status{};
};

// Blocks. Does not wait for the writer of a FIFO that has taken the name.
Result<OpenedFile> OpenRegular(int directory, const std::string& name, int flags) {
  OpenedFile file;
  file.fd = FileDescriptor(::openat(directory, name.c_str(), flags | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!file.fd || ::fstat(file.fd.get(), &file.status) != 0) return Failure(errno);
  if (!S_ISREG(file.status.st_mode)) {
    return std::unexpected(Error{"not a regular file any more", std::nullopt, EINVAL});
  }
  return file;
}

class LocalDirectory final : public Directory {
 public:
  LocalDirectory(LocalTree& tree, std::string name, std::shared_ptr<const HeldDirectory> opened)
      : Directory(std::move(name)), tree_(tree), opened_(std::move(opened)) {}

  std::string identity() const override { return fmt::format("{}:{}", opened_->device, opened_->inode); }
  const void* tree() const override { return &tree_; }

  Task<Result<std::vector<Entry>>> List() override {
    return tree_.Away([opened = opened_] { return ListAll(*opened); });
  }

  Task<Result<Entry>> Find(std::string name) override {
    return tree_.Away([opened = opened_, name = std::move(name)]() -> Result<Entry> {
      struct stat status{};
      if (::fstatat(opened->fd.get(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) return Failure(errno);
      return Entry{.name = name, .attributes = AttributesOf(status)};
    });
  }

  Task<Result<Attributes>> GetAttributes() override {
    return tree_.Away([opened = opened_]() -> Result<Attributes> {
      struct stat status{};
      if (::fstat(opened->fd.get(), &status) != 0) return Failure(errno);
      return AttributesOf(status);
    });
  }

  Task<Result<void>> SetAttributes(NewAttributes attributes) override {
    return Change(
        [&tree = tree_, attributes = std::move(attributes)](int fd) { return ApplyTo(tree, fd, attributes); });
  }

  Task<Result<std::shared_ptr<Directory>>> OpenDirectory(Entry entry) override {
    const auto open = [this, &entry] { return OpenAt(opened_->fd.get(), entry.name, O_NOFOLLOW); };
    Opened opened = co_await Offload(tree_.loop(), tree_.workers(), open);
    if (!opened) co_return std::unexpected(std::move(opened).error());
    co_return std::make_shared<LocalDirectory>(tree_, NameOf(entry.name), *std::move(opened));
  }

  Task<Result<std::shared_ptr<Directory>>> MakeDirectory(std::string name, uint32_t mode) override {
    tree_.publisher().Touch(opened_);
    const auto make = [this, &name, mode]() -> Opened {
      if (::mkdirat(opened_->fd.get(), name.c_str(), static_cast<mode_t>(mode)) != 0) return Failure(errno);
      return OpenAt(opened_->fd.get(), name, O_NOFOLLOW);
    };
    Opened opened = co_await Offload(tree_.loop(), tree_.workers(), make);
    if (!opened) co_return std::unexpected(std::move(opened).error());
    co_return std::make_shared<LocalDirectory>(tree_, NameOf(name), *std::move(opened));
  }

  Task<Result<std::unique_ptr<File>>> Open(Entry entry) override { return OpenFile(std::move(entry.name), O_RDONLY); }
  Task<Result<std::unique_ptr<File>>> OpenForWriting(std::string name) override {
    return OpenFile(std::move(name), O_RDWR);
  }

  Task<Result<std::unique_ptr<File>>> Create(std::string name, NewFile file) override {
    const auto create = [this, &name, &file]() -> Result<OpenedFile> {
      Created made = CreateAt(opened_->fd.get(), name, file);
      if (made.error != 0) return Failure(made.error);
      OpenedFile result{std::move(made.fd)};
      if (::fstat(result.fd.get(), &result.status) != 0) return Failure(errno);
      return result;
    };
    auto created = co_await Offload(tree_.loop(), tree_.workers(), create);
    if (!created) co_return std::unexpected(std::move(created).error());
    co_return std::make_unique<LocalFile>(tree_, std::move(created->fd), created->status);
  }

  Task<Result<Content>> ReadWhole(Entry entry, Bytes into) override {
    return tree_.Away([opened = opened_, name = std::move(entry.name), into]() -> Result<Content> {
      PENSTOCK_TRY(const OpenedFile file, OpenRegular(opened->fd.get(), name, O_RDONLY));
      const auto read = ReadUpTo(file.fd.get(), into, 0);
      if (!read) return Failure(read.error());
      return Content{static_cast<uint32_t>(*read), AttributesOf(file.status)};
    });
  }

  Task<Result<void>> WriteWhole(std::string name, NewFile file, ConstBytes octets) override {
    return tree_.Away(
        [&tree = tree_, opened = opened_, name = std::move(name), file = std::move(file), octets]() -> Result<void> {
          const Created made = CreateAt(opened->fd.get(), name, file);
          if (made.error != 0) return Failure(made.error);
          const auto written = WriteAllAt(made.fd.get(), octets, 0);
          const int error = written ? ApplyTo(tree, made.fd.get(), file.attributes) : written.error();
          if (error == 0) return {};
          ::unlinkat(opened->fd.get(), name.c_str(), 0);
          return Failure(error);
        });
  }

  Task<Result<void>> Publish(std::string temporary, std::string name, uint64_t octets) override {
    return tree_.publisher().Publish(opened_, std::move(temporary), std::move(name), octets);
  }

  Task<Result<std::unique_ptr<Extras>>> OpenExtras(Entry entry) override {
    return tree_.Away([&tree = tree_, opened = opened_, name = std::move(entry.name)] {
      return OpenLocalExtras(tree, opened, name);
    });
  }

  Task<Result<std::unique_ptr<Extras>>> OpenOwnExtras() override {
    return tree_.Away([&tree = tree_, opened = opened_] { return OpenLocalExtras(tree, opened, ""); });
  }

  Task<Result<std::string>> ReadLink(Entry entry) override {
    return tree_.Away([opened = opened_, name = std::move(entry.name)]() -> Result<std::string> {
      std::string text(4096, '\0');
      const ssize_t size = ::readlinkat(opened->fd.get(), name.c_str(), text.data(), text.size());
      if (size < 0) return Failure(errno);
      text.resize(static_cast<size_t>(size));
      return text;
    });
  }

  Task<Result<void>> MakeSymlink(std::string name, std::string text) override {
    return Change([name = std::move(name), text = std::move(text)](int fd) {
      return ::symlinkat(text.c_str(), fd, name.c_str()) == 0 ? 0 : errno;
    });
  }

  Task<Result<void>> MakeNode(std::string name, Attributes attributes) override {
    return Change([name = std::move(name), attributes = std::move(attributes)](int fd) {
      const mode_t mode = TypeBits(attributes.type) | (attributes.mode & 0777);
      const dev_t device = ::makedev(attributes.device_major, attributes.device_minor);
      return ::mknodat(fd, name.c_str(), mode, device) == 0 ? 0 : errno;
    });
  }

  Task<Result<void>> Link(Directory& from, std::string target, std::string name) override {
    auto& other = dynamic_cast<LocalDirectory&>(from);
    return Change([old = other.opened_, target = std::move(target), name = std::move(name)](int fd) {
      return ::linkat(old->fd.get(), target.c_str(), fd, name.c_str(), 0) == 0 ? 0 : errno;
    });
  }

  Task<Result<void>> Rename(std::string from, std::string to) override {
    return Change([from = std::move(from), to = std::move(to)](int fd) {
      return ::renameat(fd, from.c_str(), fd, to.c_str()) == 0 ? 0 : errno;
    });
  }

  Task<Result<void>> SetAttributesOf(std::string name, NewAttributes attributes) override {
    return Change([&tree = tree_, name = std::move(name), attributes = std::move(attributes)](int fd) {
      return SetAttributesAt(tree, fd, name, attributes);
    });
  }

  Task<Result<void>> Remove(std::string name) override {
    return Change([name = std::move(name)](int fd) { return ::unlinkat(fd, name.c_str(), 0) == 0 ? 0 : errno; });
  }

  Task<Result<void>> RemoveDirectory(std::string name) override {
    return Change(
        [name = std::move(name)](int fd) { return ::unlinkat(fd, name.c_str(), AT_REMOVEDIR) == 0 ? 0 : errno; });
  }

 private:
  // Runs work(descriptor), which changes the directory and returns errno, or 0.
  template <class Work>
  Task<Result<void>> Change(Work work) {
    auto change = [opened = opened_, work = std::move(work)]() mutable { return work(opened->fd.get()); };
    return tree_.Change(opened_, std::move(change));
  }

  Task<Result<std::unique_ptr<File>>> OpenFile(std::string name, int flags) {
    const auto open = [this, &name, flags] { return OpenRegular(opened_->fd.get(), name, flags); };
    auto file = co_await Offload(tree_.loop(), tree_.workers(), open);
    if (!file) co_return std::unexpected(std::move(file).error());
    co_return std::make_unique<LocalFile>(tree_, std::move(file->fd), file->status);
  }

  LocalTree& tree_;
  const std::shared_ptr<const HeldDirectory> opened_;
};

}  // namespace

Attributes AttributesOf(const struct stat& status) {
  constexpr uint64_t kBlock = 512;
  const auto time = [](const timespec& from) { return client::Time{from.tv_sec, static_cast<uint32_t>(from.tv_nsec)}; };
  return {.type = TypeOf(status.st_mode),
          .mode = status.st_mode & 07777,
          .links = static_cast<uint32_t>(status.st_nlink),
          .owner = std::to_string(status.st_uid),
          .group = std::to_string(status.st_gid),
          .size = static_cast<uint64_t>(status.st_size),
          .used = static_cast<uint64_t>(status.st_blocks) * kBlock,
          .accessed = time(status.st_atim),
          .modified = time(status.st_mtim),
          .changed = time(status.st_ctim),
          .file_id = status.st_ino,
          .file_system = status.st_dev,
          .device_major = ::major(status.st_rdev),
          .device_minor = ::minor(status.st_rdev)};
}

Task<Result<std::shared_ptr<Directory>>> LocalTree::Open(std::string path) {
  Opened opened = co_await Offload(loop_, workers_, [&path] { return OpenAt(AT_FDCWD, path.empty() ? "." : path, 0); });
  if (!opened) co_return std::unexpected(std::move(opened).error());
  co_return std::make_shared<LocalDirectory>(*this, path, *std::move(opened));
}

const std::string& LocalTree::domain() {
  std::call_once(domain_is_known_, [this] { domain_ = idmap::FindDomain().name; });
  return domain_;
}

}  // namespace penstock::copying
