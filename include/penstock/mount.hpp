/**
 * @file
 * Mounts: trees of files on servers.
 */
#ifndef PENSTOCK_MOUNT_HPP
#define PENSTOCK_MOUNT_HPP

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "penstock/attributes.hpp"
#include "penstock/detail/opened.hpp"
#include "penstock/detail/operation_state.hpp"
#include "penstock/detail/runtime_core.hpp"
#include "penstock/file.hpp"
#include "penstock/listing.hpp"
#include "penstock/operation.hpp"
#include "penstock/penstock.h"
#include "penstock/runtime.hpp"

namespace penstock::inline v1 {

/** What a URL does not say about a mount. The texts are copied when the operation is made. */
struct MountOptions {
  /** For sec=krb5, krb5i and krb5p: the keytab from which the client gets its tickets. Empty: the tickets of the user.
   */
  std::string_view krb5_keytab{};
  std::string_view krb5_principal{}; /**< The principal in the keytab. Empty: its first one. */
  /** For xprtsec=tls and mtls: a PEM file with the authorities of servers. Empty: the system's. */
  std::string_view tls_ca{};
  std::string_view tls_cert{}; /**< For xprtsec=mtls: a PEM file with the client's certificate. */
  std::string_view tls_key{};  /**< For xprtsec=mtls: a PEM file with the key of the certificate. */
  /** The most delegations of files that are not open (RFC 8881 §10.4). Zero: the client wants none. Negative: 1024. */
  int delegations = -1;
};

/** What a mount has agreed on with its server. */
struct MountInfo {
  std::string version{};      /**< "3", "4.0", "4.1", "4.2" */
  std::string transport{};    /**< "tcp" or "rdma" */
  uint32_t read_size = 0;     /**< The most octets of one READ. */
  uint32_t write_size = 0;    /**< The most octets of one WRITE. */
  uint64_t reconnections = 0; /**< How many lost connections were replaced. */
};

/**
 * Learns how far a copy is, in octets. It runs on a thread of the runtime, in Runtime::Dispatch() or in a function that
 * blocks, and must not block. An exception that leaves it ends the process.
 */
using Progress = std::function<void(uint64_t done, uint64_t total)>;

/** @cond internal */
namespace detail {

// A user's function, for the C API. It stays at its place while the operation is under way.
class ProgressTeller {
 public:
  ProgressTeller(RuntimeCore* runtime, Progress&& progress) noexcept
      : runtime_(runtime), progress_(std::move(progress)) {}
  penstock_progress* function() const noexcept { return progress_ ? &Tell : nullptr; }

 private:
  static void Tell(void* context, uint64_t done, uint64_t total) noexcept {
    const auto* const teller = static_cast<const ProgressTeller*>(context);
    const CallbackScope scope(teller->runtime_);
    teller->progress_(done, total);
  }

  RuntimeCore* runtime_;
  Progress progress_;
};

// The contents of a file, in memory of the library.
struct Contents {
  void* data = nullptr;
  size_t size = 0;

  Contents() = default;
  Contents(Contents&& other) noexcept : data(std::exchange(other.data, nullptr)), size(other.size) {}
  Contents& operator=(Contents&&) = delete;
  ~Contents() { penstock_free(data); }
};

}  // namespace detail
/** @endcond */

/**
 * A tree of files on a server, over NFS version 3, 4.0, 4.1 or 4.2. Any number of operations may be under way at the
 * same time. They keep the mount.
 *
 * **Paths** are relative to the path of the mount's URL, with or without a '/' at the beginning; "" and "/" name the
 * URL's path itself. They are octets, in UTF-8 by convention (RFC 8881 §14). ".." leads up to the root of the export at
 * most. The client follows symbolic links, except with Symlinks::kNoFollow and where a method says that it does not. A
 * path with a NUL fails with EINVAL.
 *
 * The destructor closes the mount when its last file and operation are gone. It blocks for that time, at most 10
 * seconds if the server does not answer, except in callbacks of a runtime. Close() is an operation like others.
 */
class Mount {
 public:
  /**
   * Connects to a server and mounts the export that a URL leads into.
   *
   * @param runtime  The mount belongs to it.
   * @param url      `nfs://host[:port]/path[?option=value&...]`. Percent-encoded. The path may name a directory in an
   *     export or a file. Options: `vers` (3, 4.0, 4.1, 4.2; else 4.1, or 3 if the server does not speak it), `proto`
   *     (tcp, rdma), `sec` (sys, krb5, krb5i, krb5p), `xprtsec` (none, opportunistic, tls, mtls), `port`, `mountport`,
   *     `uid`, `gid`, `timeout` (seconds, 600: after so long without an answer an operation fails), `crc` (on, off),
   *     `noresvport`; more in penstock(1).
   * @param options  What the URL does not say.
   * @return The mount. Errors: EINVAL for a URL or options that are wrong; ECONNREFUSED, EHOSTUNREACH, ETIMEDOUT,
   *     EACCES and so on, as penstock_mount_open() explains.
   */
  static Operation<Mount> Open(const Runtime& runtime, std::string_view url, const MountOptions& options = {}) {
    if (detail::HasNul(
            {url, options.krb5_keytab, options.krb5_principal, options.tls_ca, options.tls_cert, options.tls_key})) {
      return detail::Refuse<Mount>(detail::NulError());
    }
    struct Settings {
      std::string url, krb5_keytab, krb5_principal, tls_ca, tls_cert, tls_key;
      int delegations;
    };
    Settings settings{std::string(url),
                      std::string(options.krb5_keytab),
                      std::string(options.krb5_principal),
                      std::string(options.tls_ca),
                      std::string(options.tls_cert),
                      std::string(options.tls_key),
                      options.delegations};
    return detail::MakeOperation<Mount>(
        runtime.core_, nullptr, std::make_shared<detail::OpenedMount>(runtime.core_, nullptr),
        [settings = std::move(settings)](const std::shared_ptr<detail::OpenedMount>& opened,
                                         const penstock_call* call) -> int64_t {
          penstock_mount_options to = PENSTOCK_MOUNT_OPTIONS_INIT;
          to.krb5_keytab = detail::TextOrNull(settings.krb5_keytab);
          to.krb5_principal = detail::TextOrNull(settings.krb5_principal);
          to.tls_ca = detail::TextOrNull(settings.tls_ca);
          to.tls_cert = detail::TextOrNull(settings.tls_cert);
          to.tls_key = detail::TextOrNull(settings.tls_key);
          to.delegations = settings.delegations;
          return penstock_mount_open(opened->runtime()->handle(), settings.url.c_str(), &to, &opened->handle, call);
        },
        [](std::shared_ptr<detail::OpenedMount>& opened, int64_t) { return Mount(std::move(opened)); });
  }

  /** Moves the mount. The other object is empty afterwards: its operations fail with EBADF. */
  Mount(Mount&&) noexcept = default;
  /** Closes the mount of this object as the destructor does, and moves the other one here. */
  Mount& operator=(Mount&&) noexcept = default;
  /** Closes the mount when its last file and operation are gone. It blocks, except in callbacks of a runtime. */
  ~Mount() = default;

  /**
   * Gives back what the server keeps for the mount, and ends its connections. This object is empty afterwards. Without
   * a limit of its own, the operation takes at most 10 seconds if the server does not answer. A stop token is ignored.
   * The files must be closed, and the operations must have ended: otherwise the operation fails with EBUSY, and the
   * mount is closed when the last of them is gone.
   *
   * Errors: EBUSY; ETIMEDOUT, and the mount is closed, if the server did not answer.
   */
  Operation<void> Close() { return detail::OpenedMount::Close(std::move(opened_)); }

  /** Tells what the mount has agreed on with its server. Asks the server nothing. */
  Operation<MountInfo> GetInfo() const {
    return Make<MountInfo>(
        {}, penstock_mount_info PENSTOCK_MOUNT_INFO_INIT,
        [](penstock_mount* mount, penstock_mount_info& info, const penstock_call* call) {
          return penstock_mount_get_info(mount, &info, call);
        },
        [](const penstock_mount_info& info, int64_t) {
          return MountInfo{info.version, info.transport, info.read_size, info.write_size, info.reconnections};
        });
  }

  /** Asks the server for an answer, without any work (procedure 0: RFC 1813 §3.3.0, RFC 8881 §16.1). */
  Operation<void> Ping() const {
    return Simple({}, [](penstock_mount* mount, const penstock_call* call) { return penstock_ping(mount, call); });
  }

  /** Reads the attributes of a file. */
  Operation<Attributes> GetAttributes(std::string_view path, Symlinks symlinks = Symlinks::kFollow) const {
    return Make<Attributes>(
        {path}, penstock_attributes PENSTOCK_ATTRIBUTES_INIT,
        [path = std::string(path), flags = FlagsOf(symlinks)](penstock_mount* mount, penstock_attributes& attributes,
                                                              const penstock_call* call) {
          return penstock_stat(mount, path.c_str(), flags, &attributes, call);
        },
        [](const penstock_attributes& attributes, int64_t) { return detail::FromC(attributes); });
  }

  /** Sets attributes of a file, all of them or none. */
  Operation<void> SetAttributes(std::string_view path, const NewAttributes& attributes,
                                Symlinks symlinks = Symlinks::kFollow) const {
    return Simple({path}, [path = std::string(path), flags = FlagsOf(symlinks), set = detail::ToC(attributes)](
                              penstock_mount* mount, const penstock_call* call) {
      return penstock_set_attributes(mount, path.c_str(), flags, &set, call);
    });
  }

  /**
   * Reads the text of a symbolic link, which may be relative or absolute.
   *
   * Errors: EINVAL if it is not a link; ERANGE if the text is longer than 65535 octets.
   */
  Operation<std::string> ReadLink(std::string_view path) const {
    return Make<std::string>(
        {path}, std::string(65535, '\0'),
        [path = std::string(path)](penstock_mount* mount, std::string& text, const penstock_call* call) {
          return penstock_readlink(mount, path.c_str(), text.data(), text.size() + 1, call);
        },
        [](const std::string& text, int64_t length) { return text.substr(0, static_cast<size_t>(length)); });
  }

  /**
   * Makes a directory.
   *
   * @param path  Its name.
   * @param mode  The twelve mode bits of POSIX. The process's umask does not count; the server's may.
   *
   * Errors: EEXIST if the name is taken.
   */
  Operation<void> MakeDirectory(std::string_view path, uint32_t mode = 0777) const {
    return Simple({path}, [path = std::string(path), mode](penstock_mount* mount, const penstock_call* call) {
      return penstock_mkdir(mount, path.c_str(), mode, call);
    });
  }

  /** Removes an empty directory. Errors: ENOTEMPTY, ENOTDIR. */
  Operation<void> RemoveDirectory(std::string_view path) const {
    return Simple({path}, [path = std::string(path)](penstock_mount* mount, const penstock_call* call) {
      return penstock_rmdir(mount, path.c_str(), call);
    });
  }

  /** Removes a name of anything but a directory. Does not follow a symbolic link. Errors: EISDIR. */
  Operation<void> Remove(std::string_view path) const {
    return Simple({path}, [path = std::string(path)](penstock_mount* mount, const penstock_call* call) {
      return penstock_unlink(mount, path.c_str(), call);
    });
  }

  /** Gives a file another name, in place of an object that has it, as rename() of POSIX does. */
  Operation<void> Rename(std::string_view from, std::string_view to) const {
    return Simple({from, to},
                  [from = std::string(from), to = std::string(to)](penstock_mount* mount, const penstock_call* call) {
                    return penstock_rename(mount, from.c_str(), to.c_str(), call);
                  });
  }

  /** Gives a file one more name. Does not follow a symbolic link. Errors: EEXIST if the name is taken. */
  Operation<void> Link(std::string_view file, std::string_view name) const {
    return Simple({file, name}, [file = std::string(file), name = std::string(name)](penstock_mount* mount,
                                                                                     const penstock_call* call) {
      return penstock_link(mount, file.c_str(), name.c_str(), call);
    });
  }

  /**
   * Makes a symbolic link.
   *
   * @param target  The text of the link, which need not lead to anything.
   * @param path    The name of the link.
   *
   * Errors: EEXIST if the name is taken.
   */
  Operation<void> MakeSymlink(std::string_view target, std::string_view path) const {
    return Simple({target, path}, [target = std::string(target), path = std::string(path)](penstock_mount* mount,
                                                                                           const penstock_call* call) {
      return penstock_symlink(mount, target.c_str(), path.c_str(), call);
    });
  }

  /** Tells the space of the file system that holds a file (RFC 1813 §3.3.18, RFC 8881 §5.8.2). */
  Operation<Space> GetSpace(std::string_view path = {}) const {
    return Make<Space>(
        {path}, penstock_space PENSTOCK_SPACE_INIT,
        [path = std::string(path)](penstock_mount* mount, penstock_space& space, const penstock_call* call) {
          return penstock_statfs(mount, path.c_str(), &space, call);
        },
        [](const penstock_space& space, int64_t) {
          return Space{space.total_octets, space.free_octets, space.available_octets,
                       space.total_files,  space.free_files,  space.available_files};
        });
  }

  /** Reads a directory. */
  Operation<Listing> List(std::string_view path = {}) const {
    return Make<Listing>(
        {path}, static_cast<penstock_listing*>(nullptr),
        [path = std::string(path)](penstock_mount* mount, penstock_listing*& listing, const penstock_call* call) {
          return penstock_list(mount, path.c_str(), &listing, call);
        },
        [](penstock_listing* listing, int64_t count) { return Listing(listing, static_cast<size_t>(count)); });
  }

  /**
   * Opens a regular file.
   *
   * @param path   The file.
   * @param flags  As for open(): O_RDONLY, O_WRONLY or O_RDWR, with O_CREAT, O_EXCL, O_TRUNC, O_NOFOLLOW, O_CLOEXEC
   *     (which is without effect), and O_SYNC or O_DSYNC: File::Write() then ends when the data are on stable storage.
   * @param mode   With O_CREAT: the twelve mode bits of a new file. The process's umask does not count.
   * @return The file. Errors: EINVAL for other flags; EEXIST with O_EXCL if the name is taken; EISDIR.
   */
  Operation<File> OpenFile(std::string_view path, int flags, uint32_t mode = 0666) const {
    if (!opened_) return detail::Refuse<File>(ClosedError());
    return Make<File>(
        {path}, std::make_shared<detail::OpenedFile>(opened_->runtime(), opened_),
        [path = std::string(path), flags, mode](
            penstock_mount* mount, const std::shared_ptr<detail::OpenedFile>& opened, const penstock_call* call) {
          return penstock_open(mount, path.c_str(), flags, mode, &opened->handle, call);
        },
        [](std::shared_ptr<detail::OpenedFile>& opened, int64_t) { return File(std::move(opened)); });
  }

  /** Reads a whole file. Errors: EFBIG if it does not fit in memory. */
  Operation<std::string> ReadFile(std::string_view path) const {
    return ReadContents<std::string>(path, [](const char* data, size_t size) { return std::string(data, size); });
  }
  /** As ReadFile(), for data that are not text. */
  Operation<std::vector<std::byte>> ReadFileBytes(std::string_view path) const {
    return ReadContents<std::vector<std::byte>>(path, [](const char* data, size_t size) {
      const std::span<const std::byte> octets = std::as_bytes(std::span(data, size));
      return std::vector<std::byte>(octets.begin(), octets.end());
    });
  }

  /**
   * Makes a file with these contents, or replaces the contents of one. After success they are on the server's stable
   * storage. If the server restarts meanwhile, everything that it may have lost is written again (RFC 1813 §4.11).
   * After a failure the file may have a part of the octets.
   *
   * @param path  The file.
   * @param data  The octets. They must stay valid and unchanged until the operation has ended.
   * @param mode  The twelve mode bits of a new file.
   */
  Operation<void> WriteFile(std::string_view path, std::span<const std::byte> data, uint32_t mode = 0666) const {
    return Simple({path}, [path = std::string(path), data, mode](penstock_mount* mount, const penstock_call* call) {
      return penstock_write_file(mount, path.c_str(), data.data(), data.size(), mode, call);
    });
  }
  /** As above, with a text, which must stay valid and unchanged until the operation has ended. */
  Operation<void> WriteFile(std::string_view path, std::string_view data, uint32_t mode = 0666) const {
    return WriteFile(path, std::as_bytes(std::span(data)), mode);
  }

  /**
   * Copies a file of the server into a local file. A local regular file gets exactly the contents, from its beginning
   * on, and is not synced. Into a pipe, a socket or a device, the octets are written in their order. After a failure
   * the local file has a part.
   *
   * @param path        The file on the server.
   * @param descriptor  The local file, open for writing. It stays open, and must stay open until the operation has
   * ended.
   * @param progress    Empty: nobody is told.
   * @return The number of octets. Errors: EIO if the file became shorter meanwhile.
   */
  Operation<uint64_t> Download(std::string_view path, int descriptor, Progress progress = {}) const {
    if (!opened_) return detail::Refuse<uint64_t>(ClosedError());
    return Make<uint64_t>(
        {path}, detail::ProgressTeller(opened_->runtime().get(), std::move(progress)),
        [path = std::string(path), descriptor](penstock_mount* mount, detail::ProgressTeller& teller,
                                               const penstock_call* call) {
          return penstock_download(mount, path.c_str(), descriptor, teller.function(), &teller, call);
        },
        [](detail::ProgressTeller&, int64_t count) { return static_cast<uint64_t>(count); });
  }

  /**
   * Copies a local file into a file of the server, which is made or whose contents are replaced. After success the data
   * are on the server's stable storage.
   *
   * @param descriptor  The local regular file, open for reading. It stays open, and must stay open until the operation
   * has ended.
   * @param path        The file on the server.
   * @param mode        The twelve mode bits of a new file.
   * @param progress    Empty: nobody is told.
   * @return The number of octets.
   */
  Operation<uint64_t> Upload(int descriptor, std::string_view path, uint32_t mode = 0666,
                             Progress progress = {}) const {
    if (!opened_) return detail::Refuse<uint64_t>(ClosedError());
    return Make<uint64_t>(
        {path}, detail::ProgressTeller(opened_->runtime().get(), std::move(progress)),
        [path = std::string(path), descriptor, mode](penstock_mount* mount, detail::ProgressTeller& teller,
                                                     const penstock_call* call) {
          return penstock_upload(mount, descriptor, path.c_str(), mode, teller.function(), &teller, call);
        },
        [](detail::ProgressTeller&, int64_t count) { return static_cast<uint64_t>(count); });
  }

  /** Tells whether this object has a mount. */
  bool is_open() const noexcept { return opened_ && opened_->is_open(); }

  /** Returns the mount for functions of the C API, or null. It belongs to this object: do not close it. */
  penstock_mount* handle() const noexcept { return opened_ ? opened_->handle : nullptr; }

 private:
  explicit Mount(std::shared_ptr<detail::OpenedMount> opened) noexcept : opened_(std::move(opened)) {}

  static Error ClosedError() { return {EBADF, "the mount is closed"}; }
  static unsigned FlagsOf(Symlinks symlinks) noexcept {
    return symlinks == Symlinks::kNoFollow ? PENSTOCK_NOFOLLOW : 0;
  }

  // Makes an operation. `texts` are its arguments that must not contain a NUL.
  template <class T, class Out, class BeginFunction, class TakeFunction>
  Operation<T> Make(std::initializer_list<std::string_view> texts, Out out, BeginFunction begin,
                    TakeFunction take) const {
    if (!opened_) return detail::Refuse<T>(ClosedError());
    if (detail::HasNul(texts)) return detail::Refuse<T>(detail::NulError());
    return detail::MakeOperation<T>(
        opened_->runtime(), opened_, std::move(out),
        [opened = opened_.get(), begin = std::move(begin)](Out& results, const penstock_call* call) mutable -> int64_t {
          return begin(opened->handle, results, call);
        },
        std::move(take));
  }
  // Makes an operation that has no value.
  template <class BeginFunction>
  Operation<void> Simple(std::initializer_list<std::string_view> texts, BeginFunction begin) const {
    return Make<void>(
        texts, detail::Nothing(),
        [begin = std::move(begin)](penstock_mount* mount, detail::Nothing&, const penstock_call* call) mutable {
          return begin(mount, call);
        },
        [](detail::Nothing&, int64_t) {});
  }

  template <class T, class CopyFunction>
  Operation<T> ReadContents(std::string_view path, CopyFunction copy) const {
    return Make<T>(
        {path}, detail::Contents(),
        [path = std::string(path)](penstock_mount* mount, detail::Contents& contents, const penstock_call* call) {
          return penstock_read_file(mount, path.c_str(), &contents.data, &contents.size, call);
        },
        [copy](const detail::Contents& contents, int64_t) {
          return copy(static_cast<const char*>(contents.data), contents.size);
        });
  }

  std::shared_ptr<detail::OpenedMount> opened_;
};

}  // namespace penstock::inline v1

#endif
