/**
 * @file
 * The server of libpenstock in C++20: only headers, over the C functions of server.h, which say more about each of
 * them.
 *
 *     class Notes : public penstock::BasicFileSystem { ... };
 *
 *     penstock_server_options options = PENSTOCK_SERVER_OPTIONS_INIT;
 *     options.state_directory = "/var/lib/notes";
 *     penstock::Server server = penstock::Server::Make(options).value();
 *     penstock::FileSystem notes = penstock::FileSystem::Make(std::make_shared<Notes>()).value();
 *     server.Export("/notes", "*(ro,insecure)", notes).value();
 *     server.Start().value();
 */
#ifndef PENSTOCK_SERVER_HPP
#define PENSTOCK_SERVER_HPP

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "penstock/detail/host_function.hpp"
#include "penstock/result.hpp"
#include "penstock/server.h"

namespace penstock::inline v1 {

namespace internal {

/** The error of a C function of this thread that has just returned `result`, a negative errno. */
inline Error LastError(int64_t result) { return Error{static_cast<int>(-result), penstock_error_text()}; }
/** The result of a C function of this thread that has just returned. */
inline Result<void> ResultOf(int result) {
  if (result < 0) return LastError(result);
  return {};
}

}  // namespace internal

/** The handle of an object: see penstock_handle. A value. */
class Handle {
 public:
  /** A handle without octets, which names nothing. */
  Handle() = default;
  /** Copies the handle of a C function. */
  explicit Handle(const penstock_handle& raw) : raw_(raw) {}

  /** The octets of a value without pointers, such as an inode number. */
  template <class T>
    requires(std::is_trivially_copyable_v<T> && sizeof(T) <= PENSTOCK_HANDLE_SIZE && !std::is_pointer_v<T>)
  static Handle Of(const T& value) {
    Handle handle;
    handle.raw_.size = sizeof(T);
    std::memcpy(handle.raw_.octets, &value, sizeof(T));
    return handle;
  }
  /** The value that Of() was given. Nothing if the handle has another size. */
  template <class T>
    requires(std::is_trivially_copyable_v<T> && sizeof(T) <= PENSTOCK_HANDLE_SIZE && !std::is_pointer_v<T>)
  std::optional<T> As() const {
    if (raw_.size != sizeof(T)) return std::nullopt;
    T value;
    std::memcpy(&value, raw_.octets, sizeof(T));
    return value;
  }

  /** The handle for C functions. */
  const penstock_handle& raw() const { return raw_; }

 private:
  penstock_handle raw_{};
};

/** The client's user on whose behalf a method is called: see penstock_caller. Valid until the method returns. */
struct Caller {
  uint32_t uid = 0;                   /**< The user. Zero is root. */
  uint32_t gid = 0;                   /**< The group. */
  std::span<const uint32_t> groups{}; /**< Further groups. */
  std::string_view address{};         /**< Of the client's host: "192.0.2.7". Empty if the server itself calls. */
};

/** An entry of a directory: see penstock_add_entry. */
struct DirectoryEntry {
  const char* name = nullptr;                      /**< The name. */
  uint64_t file_id = 0;                            /**< penstock_attributes::file_id of the object. */
  uint64_t cookie = 0;                             /**< 3 or more. */
  const penstock_handle* handle = nullptr;         /**< Null: the server calls Lookup(). */
  const penstock_attributes* attributes = nullptr; /**< Null: the server calls GetAttributes(). */
};

/**
 * A file system of the host. Derive a class, override Root, GetAttributes, Lookup, Read and ReadDirectory, and what
 * else the file system has, as public methods, and give it to FileSystem::Make(). penstock_file_system_ops describes
 * each method, and when the server calls it; a method that is not overridden is a missing function there.
 *
 * Several threads call the methods at a time. A method may throw: std::system_error is its errno (generic and system
 * category), std::bad_alloc is ENOMEM, anything else is EIO. Errors that are usual, such as a name that does not exist,
 * are better returned: `return penstock::Error{ENOENT};`.
 */
class BasicFileSystem {
 public:
  virtual ~BasicFileSystem() = default;

  /** See penstock_file_system_ops::root. */
  virtual Result<Handle> Root() = 0;
  /** See penstock_file_system_ops::get_attributes. */
  virtual Result<penstock_attributes> GetAttributes(const Caller& caller, const Handle& object) = 0;
  /** See penstock_file_system_ops::lookup. */
  virtual Result<Handle> Lookup(const Caller& caller, const Handle& directory, const char* name) = 0;
  /** Returns the number of octets that it has put into `buffer`. */
  virtual Result<size_t> Read(const Caller& caller, const Handle& file, std::span<std::byte> buffer,
                              uint64_t offset) = 0;
  /** `add` returns false if there is no room. */
  using Add = std::function<bool(const DirectoryEntry& entry)>;
  /** See penstock_file_system_ops::read_directory. */
  virtual Result<void> ReadDirectory(const Caller& caller, const Handle& directory, uint64_t cookie,
                                     const Add& add) = 0;

  /** See penstock_file_system_ops::read_link. */
  virtual Result<std::string> ReadLink(const Caller&, const Handle&) { return Missing(); }
  /** See penstock_file_system_ops::set_attributes. */
  virtual Result<void> SetAttributes(const Caller&, const Handle&, const penstock_new_attributes&) { return Missing(); }
  /** Returns the number of octets that it has written, and sets `stability`. */
  virtual Result<size_t> Write(const Caller&, const Handle&, std::span<const std::byte>, uint64_t,
                               penstock_stability& /*stability*/) {
    return Missing();
  }
  /** See penstock_file_system_ops::commit. */
  virtual Result<void> Commit(const Caller&, const Handle&) { return Missing(); }
  /** See penstock_file_system_ops::write_verifier. */
  virtual uint64_t WriteVerifier() { return 0; }
  /** See penstock_file_system_ops::create. */
  virtual Result<Handle> Create(const Caller&, const Handle& /*directory*/, const char* /*name*/,
                                const penstock_new_attributes&) {
    return Missing();
  }
  /** See penstock_file_system_ops::make_directory. */
  virtual Result<Handle> MakeDirectory(const Caller&, const Handle& /*directory*/, const char* /*name*/,
                                       const penstock_new_attributes&) {
    return Missing();
  }
  /** See penstock_file_system_ops::make_symlink. */
  virtual Result<Handle> MakeSymlink(const Caller&, const Handle& /*directory*/, const char* /*name*/,
                                     const char* /*target*/, const penstock_new_attributes&) {
    return Missing();
  }
  /** See penstock_file_system_ops::make_node. */
  virtual Result<Handle> MakeNode(const Caller&, const Handle& /*directory*/, const char* /*name*/, penstock_file_type,
                                  uint32_t /*major*/, uint32_t /*minor*/, const penstock_new_attributes&) {
    return Missing();
  }
  /** See penstock_file_system_ops::remove. */
  virtual Result<void> Remove(const Caller&, const Handle& /*directory*/, const char* /*name*/) { return Missing(); }
  /** See penstock_file_system_ops::remove_directory. */
  virtual Result<void> RemoveDirectory(const Caller&, const Handle& /*directory*/, const char* /*name*/) {
    return Missing();
  }
  /** See penstock_file_system_ops::rename. */
  virtual Result<void> Rename(const Caller&, const Handle& /*from_directory*/, const char* /*from*/,
                              const Handle& /*to_directory*/, const char* /*to*/) {
    return Missing();
  }
  /** See penstock_file_system_ops::link. */
  virtual Result<void> Link(const Caller&, const Handle& /*file*/, const Handle& /*directory*/, const char* /*name*/) {
    return Missing();
  }
  /** See penstock_file_system_ops::access. */
  virtual Result<uint32_t> Access(const Caller&, const Handle&, uint32_t /*wanted*/) { return Missing(); }
  /** See penstock_file_system_ops::get_space. */
  virtual Result<penstock_space> GetSpace(const Caller&, const Handle&) { return Missing(); }
  /** See penstock_file_system_ops::get_xattr. */
  virtual Result<std::string> GetXattr(const Caller&, const Handle&, const char* /*name*/) { return Missing(); }
  /** See penstock_file_system_ops::set_xattr. */
  virtual Result<void> SetXattr(const Caller&, const Handle&, const char* /*name*/, std::span<const std::byte>,
                                int /*flags*/) {
    return Missing();
  }
  /** See penstock_file_system_ops::remove_xattr. */
  virtual Result<void> RemoveXattr(const Caller&, const Handle&, const char* /*name*/) { return Missing(); }
  /** `add` returns false if there is no room. */
  using AddName = std::function<bool(const char* name)>;
  /** See penstock_file_system_ops::list_xattrs. */
  virtual Result<void> ListXattrs(const Caller&, const Handle&, const AddName&) { return Missing(); }
  /** Returns the place; nothing if there is none before the end of the file. */
  virtual Result<std::optional<uint64_t>> Seek(const Caller&, const Handle&, uint64_t /*offset*/, bool /*hole*/) {
    return Missing();
  }
  /** See penstock_file_system_ops::allocate. */
  virtual Result<void> Allocate(const Caller&, const Handle&, uint64_t /*offset*/, uint64_t /*length*/) {
    return Missing();
  }
  /** See penstock_file_system_ops::deallocate. */
  virtual Result<void> Deallocate(const Caller&, const Handle&, uint64_t /*offset*/, uint64_t /*length*/) {
    return Missing();
  }
  /** See penstock_file_system_ops::copy. */
  virtual Result<uint64_t> Copy(const Caller&, const Handle& /*from*/, uint64_t /*from_offset*/, const Handle& /*to*/,
                                uint64_t /*to_offset*/, uint64_t /*count*/) {
    return Missing();
  }
  /** Pin and Unpin are overridden together. */
  virtual Result<void> Pin(const Handle&) { return Missing(); }
  /** See penstock_file_system_ops::unpin. */
  virtual void Unpin(const Handle&) {}

 private:
  static Error Missing() { return Error{EOPNOTSUPP}; }
};

namespace internal {

/** The C functions over the methods of `Files`. `self` points to a std::shared_ptr<Files>. */
template <class Files>
class Functions {
  using C = const penstock_caller*;
  using H = const penstock_handle*;
  using N = const char*;

 public:
  /** The table of the functions that `Files` has. */
  static penstock_file_system_ops Table() {
    penstock_file_system_ops ops = PENSTOCK_FILE_SYSTEM_OPS_INIT;
    ops.destroy = [](void* self) { delete static_cast<std::shared_ptr<Files>*>(self); };
    ops.root = [](void* self, penstock_handle* root) { return Find(root, [&] { return Of(self).Root(); }); };
    ops.get_attributes = [](void* self, C caller, H object, penstock_attributes* attributes) {
      return Give(attributes, [&] { return Of(self).GetAttributes(From(caller), Handle(*object)); });
    };
    ops.lookup = [](void* self, C caller, H directory, N name, penstock_handle* found) {
      return Find(found, [&] { return Of(self).Lookup(From(caller), Handle(*directory), name); });
    };
    ops.read = [](void* self, C caller, H file, void* buffer, size_t count, uint64_t offset) {
      const std::span to(static_cast<std::byte*>(buffer), count);
      return Count([&] { return Of(self).Read(From(caller), Handle(*file), to, offset); });
    };
    ops.read_directory = [](void* self, C caller, H directory, uint64_t cookie, penstock_add_entry* add,
                            void* context) {
      const BasicFileSystem::Add give = [&](const DirectoryEntry& entry) {
        return add(context, entry.name, entry.file_id, entry.cookie, entry.handle, entry.attributes) == 0;
      };
      return Do([&] { return Of(self).ReadDirectory(From(caller), Handle(*directory), cookie, give); });
    };
    SetData(ops);
    SetNames(ops);
    SetRest(ops);
    return ops;
  }

 private:
  /** Whether the class overrides a method. */
  template <class Method, class Default>
  static constexpr bool Has(Method, Default) {
    return !std::is_same_v<Method, Default>;
  }
/** Whether `Files` overrides the method. */
#define PENSTOCK_HAS_(method) Has(&Files::method, &BasicFileSystem::method)

  static void SetData(penstock_file_system_ops& ops) {
    if constexpr (PENSTOCK_HAS_(ReadLink)) {
      ops.read_link = [](void* self, C caller, H symlink, char* buffer, size_t size) {
        return static_cast<int>(
            Copy(buffer, size, ENAMETOOLONG, [&] { return Of(self).ReadLink(From(caller), Handle(*symlink)); }));
      };
    }
    if constexpr (PENSTOCK_HAS_(SetAttributes)) {
      ops.set_attributes = [](void* self, C caller, H object, const penstock_new_attributes* values) {
        return Do([&] { return Of(self).SetAttributes(From(caller), Handle(*object), *values); });
      };
    }
    if constexpr (PENSTOCK_HAS_(Write)) {
      ops.write = [](void* self, C caller, H file, const void* data, size_t count, uint64_t offset,
                     penstock_stability* stability) {
        const std::span from(static_cast<const std::byte*>(data), count);
        return Count([&] { return Of(self).Write(From(caller), Handle(*file), from, offset, *stability); });
      };
    }
    if constexpr (PENSTOCK_HAS_(Commit)) {
      ops.commit = [](void* self, C caller, H file) {
        return Do([&] { return Of(self).Commit(From(caller), Handle(*file)); });
      };
    }
    if constexpr (PENSTOCK_HAS_(WriteVerifier)) {
      ops.write_verifier = [](void* self) { return Of(self).WriteVerifier(); };
    }
    if constexpr (PENSTOCK_HAS_(Seek)) {
      ops.seek = [](void* self, C caller, H file, uint64_t offset, int hole, uint64_t* found) {
        return static_cast<int>(Run([&]() -> int64_t {
          const auto place = Of(self).Seek(From(caller), Handle(*file), offset, hole != 0);
          if (!place) return Negative(place.error());
          *found = place->value_or(0);
          return place->has_value() ? 1 : 0;
        }));
      };
    }
    if constexpr (PENSTOCK_HAS_(Allocate)) {
      ops.allocate = [](void* self, C caller, H file, uint64_t offset, uint64_t length) {
        return Do([&] { return Of(self).Allocate(From(caller), Handle(*file), offset, length); });
      };
    }
    if constexpr (PENSTOCK_HAS_(Deallocate)) {
      ops.deallocate = [](void* self, C caller, H file, uint64_t offset, uint64_t length) {
        return Do([&] { return Of(self).Deallocate(From(caller), Handle(*file), offset, length); });
      };
    }
    if constexpr (PENSTOCK_HAS_(Copy)) {
      ops.copy = [](void* self, C caller, H from, uint64_t from_offset, H to, uint64_t to_offset, uint64_t count) {
        return Count(
            [&] { return Of(self).Copy(From(caller), Handle(*from), from_offset, Handle(*to), to_offset, count); });
      };
    }
  }

  static void SetNames(penstock_file_system_ops& ops) {
    using New = const penstock_new_attributes*;
    if constexpr (PENSTOCK_HAS_(Create)) {
      ops.create = [](void* self, C caller, H directory, N name, New attributes, penstock_handle* made) {
        return Find(made, [&] { return Of(self).Create(From(caller), Handle(*directory), name, *attributes); });
      };
    }
    if constexpr (PENSTOCK_HAS_(MakeDirectory)) {
      ops.make_directory = [](void* self, C caller, H directory, N name, New attributes, penstock_handle* made) {
        return Find(made, [&] { return Of(self).MakeDirectory(From(caller), Handle(*directory), name, *attributes); });
      };
    }
    if constexpr (PENSTOCK_HAS_(MakeSymlink)) {
      ops.make_symlink = [](void* self, C caller, H directory, N name, N target, New attributes,
                            penstock_handle* made) {
        return Find(made,
                    [&] { return Of(self).MakeSymlink(From(caller), Handle(*directory), name, target, *attributes); });
      };
    }
    if constexpr (PENSTOCK_HAS_(MakeNode)) {
      ops.make_node = [](void* self, C caller, H directory, N name, penstock_file_type type, uint32_t device_major,
                         uint32_t device_minor, New attributes, penstock_handle* made) {
        return Find(made, [&] {
          return Of(self).MakeNode(From(caller), Handle(*directory), name, type, device_major, device_minor,
                                   *attributes);
        });
      };
    }
    if constexpr (PENSTOCK_HAS_(Remove)) {
      ops.remove = [](void* self, C caller, H directory, N name) {
        return Do([&] { return Of(self).Remove(From(caller), Handle(*directory), name); });
      };
    }
    if constexpr (PENSTOCK_HAS_(RemoveDirectory)) {
      ops.remove_directory = [](void* self, C caller, H directory, N name) {
        return Do([&] { return Of(self).RemoveDirectory(From(caller), Handle(*directory), name); });
      };
    }
    if constexpr (PENSTOCK_HAS_(Rename)) {
      ops.rename = [](void* self, C caller, H from_directory, N from, H to_directory, N to) {
        return Do(
            [&] { return Of(self).Rename(From(caller), Handle(*from_directory), from, Handle(*to_directory), to); });
      };
    }
    if constexpr (PENSTOCK_HAS_(Link)) {
      ops.link = [](void* self, C caller, H file, H directory, N name) {
        return Do([&] { return Of(self).Link(From(caller), Handle(*file), Handle(*directory), name); });
      };
    }
  }

  static void SetRest(penstock_file_system_ops& ops) {
    if constexpr (PENSTOCK_HAS_(Access)) {
      ops.access = [](void* self, C caller, H object, uint32_t wanted, uint32_t* granted) {
        return Give(granted, [&] { return Of(self).Access(From(caller), Handle(*object), wanted); });
      };
    }
    if constexpr (PENSTOCK_HAS_(GetSpace)) {
      ops.get_space = [](void* self, C caller, H object, penstock_space* space) {
        return Give(space, [&] { return Of(self).GetSpace(From(caller), Handle(*object)); });
      };
    }
    if constexpr (PENSTOCK_HAS_(GetXattr)) {
      ops.get_xattr = [](void* self, C caller, H object, N name, void* buffer, size_t size) {
        return Copy(buffer, size, ERANGE, [&] { return Of(self).GetXattr(From(caller), Handle(*object), name); });
      };
    }
    if constexpr (PENSTOCK_HAS_(SetXattr)) {
      ops.set_xattr = [](void* self, C caller, H object, N name, const void* value, size_t size, int flags) {
        const std::span from(static_cast<const std::byte*>(value), size);
        return Do([&] { return Of(self).SetXattr(From(caller), Handle(*object), name, from, flags); });
      };
    }
    if constexpr (PENSTOCK_HAS_(RemoveXattr)) {
      ops.remove_xattr = [](void* self, C caller, H object, N name) {
        return Do([&] { return Of(self).RemoveXattr(From(caller), Handle(*object), name); });
      };
    }
    if constexpr (PENSTOCK_HAS_(ListXattrs)) {
      ops.list_xattrs = [](void* self, C caller, H object, penstock_add_name* add, void* context) {
        int refused = 0;
        const BasicFileSystem::AddName give = [&](N name) {
          refused = add(context, name);
          return refused == 0;
        };
        const int done = Do([&] { return Of(self).ListXattrs(From(caller), Handle(*object), give); });
        return done < 0 ? done : refused;
      };
    }
    if constexpr (PENSTOCK_HAS_(Pin)) {
      static_assert(PENSTOCK_HAS_(Unpin), "Pin() needs Unpin()");
      ops.pin = [](void* self, H file) { return Do([&] { return Of(self).Pin(Handle(*file)); }); };
      ops.unpin = [](void* self, H file) { Of(self).Unpin(Handle(*file)); };
    }
  }
#undef PENSTOCK_HAS_

  static Files& Of(void* self) { return **static_cast<std::shared_ptr<Files>*>(self); }
  static Caller From(C caller) {
    return {caller->uid, caller->gid, std::span(caller->groups, caller->group_count), caller->address};
  }
  static int64_t Negative(const Error& error) { return detail::NegativeErrno(error); }
  template <class Function>
  static int64_t Run(Function function) noexcept {
    return detail::RunHostFunction(std::move(function));
  }
  template <class Function>
  static int Do(Function function) noexcept {
    return static_cast<int>(Run([&]() -> int64_t {
      const Result<void> done = function();
      return done ? 0 : Negative(done.error());
    }));
  }
  template <class Value, class Function>
  static int Give(Value* to, Function function) noexcept {
    return static_cast<int>(Run([&]() -> int64_t {
      const auto given = function();
      if (!given) return Negative(given.error());
      *to = *given;
      return 0;
    }));
  }
  template <class Function>
  static int Find(penstock_handle* to, Function function) noexcept {
    return static_cast<int>(Run([&]() -> int64_t {
      const Result<Handle> found = function();
      if (!found) return Negative(found.error());
      *to = found->raw();
      return 0;
    }));
  }
  template <class Function>
  static int64_t Count(Function function) noexcept {
    return Run([&]() -> int64_t {
      const auto count = function();
      return count ? static_cast<int64_t>(*count) : Negative(count.error());
    });
  }
  template <class Function>
  static int64_t Copy(void* to, size_t size, int too_long, Function function) noexcept {
    return Run([&]() -> int64_t {
      const Result<std::string> text = function();
      if (!text) return Negative(text.error());
      if (text->size() > size) return -too_long;
      std::memcpy(to, text->data(), text->size());
      return static_cast<int64_t>(text->size());
    });
  }
};

}  // namespace internal

/** A file system of the host that servers can export. Copies are the same file system. */
class FileSystem {
 public:
  /**
   * Makes one of an object. `Files` is its own class, not BasicFileSystem, so that its methods are known.
   *
   * @param files    It lives until no server uses it, and no copy of the result is left.
   * @param options  Its properties.
   */
  template <class Files>
  static Result<FileSystem> Make(std::shared_ptr<Files> files,
                                 const penstock_file_system_options& options = PENSTOCK_FILE_SYSTEM_OPTIONS_INIT) {
    static_assert(std::is_base_of_v<BasicFileSystem, Files> && !std::is_same_v<BasicFileSystem, Files>);
    auto self = std::make_unique<std::shared_ptr<Files>>(std::move(files));
    const penstock_file_system_ops ops = internal::Functions<Files>::Table();
    penstock_file_system* made = nullptr;
    const int result = penstock_file_system_new(&ops, self.get(), &options, &made);
    if (result < 0) return internal::LastError(result);
    (void)self.release();  // it belongs to `made`
    return FileSystem(std::shared_ptr<penstock_file_system>(made, &penstock_file_system_free));
  }

  /** For the C functions. It lives as long as this object. */
  penstock_file_system* get() const { return files_.get(); }

 private:
  explicit FileSystem(std::shared_ptr<penstock_file_system> files) : files_(std::move(files)) {}

  std::shared_ptr<penstock_file_system> files_;
};

/** A server: see penstock_server. The destructor stops it. */
class Server {
 public:
  /** Receives a message: see penstock_log. It must not throw. */
  using Log = std::function<void(penstock_log_level level, std::string_view module, std::string_view message)>;

  /** Makes a server. `log` takes the place of the function in the options, unless it is empty. */
  static Result<Server> Make(penstock_server_options options, Log log = {}) {
    Server server;
    if (log) {
      server.log_ = std::make_unique<Log>(std::move(log));
      options.log_context = server.log_.get();
      options.log = [](void* context, penstock_log_level level, const char* module, const char* message) {
        (*static_cast<Log*>(context))(level, module, message);
      };
    }
    penstock_server* made = nullptr;
    const int result = penstock_server_new(&options, &made);
    if (result < 0) return internal::LastError(result);
    server.server_.reset(made);
    return server;
  }

  /** See penstock_server_export(). */
  Result<void> Export(const std::string& path, const std::string& clients, const FileSystem& files) {
    return internal::ResultOf(penstock_server_export(server_.get(), path.c_str(), clients.c_str(), files.get()));
  }
  /** See penstock_server_export_directory(). */
  Result<void> ExportDirectory(const std::string& path, const std::string& directory, const std::string& clients) {
    return internal::ResultOf(
        penstock_server_export_directory(server_.get(), path.c_str(), directory.c_str(), clients.c_str()));
  }
  /** See penstock_server_unexport(). */
  Result<void> Unexport(const std::string& path) {
    return internal::ResultOf(penstock_server_unexport(server_.get(), path.c_str()));
  }
  /** See penstock_server_start(). */
  Result<void> Start() { return internal::ResultOf(penstock_server_start(server_.get())); }
  /** "127.0.0.1:2049" */
  Result<std::string> Address(penstock_service service, unsigned index = 0) const {
    std::array<char, 64> text{};
    const int length = penstock_server_address(server_.get(), service, index, text.data(), text.size());
    if (length < 0) return internal::LastError(length);
    return std::string(text.data(), static_cast<size_t>(length));
  }
  /** See penstock_server_stop(). */
  Result<void> Stop() { return internal::ResultOf(penstock_server_stop(server_.get())); }

  /** For the C functions. It lives as long as this object. */
  penstock_server* get() const { return server_.get(); }

 private:
  Server() = default;

  struct Free {
    void operator()(penstock_server* server) const { penstock_server_free(server); }
  };
  std::unique_ptr<Log> log_;  // before the server, which calls it
  std::unique_ptr<penstock_server, Free> server_;
};

}  // namespace penstock::inline v1

#endif
