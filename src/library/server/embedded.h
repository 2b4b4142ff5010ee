// A file system whose functions the host process supplies (penstock_file_system_ops). The host is not trusted: what its
// functions return is checked, so that a mistake of the host becomes an error of the one call, and a line of the log.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/log_limit.h"
#include "fs/file_system.h"
#include "penstock/server.h"

namespace penstock::library {

// The functions, and what does not change. Any thread.
class Embedded {
 public:
  // `options` are complete.
  Embedded(const penstock_file_system_ops& ops, void* self, const penstock_file_system_options& options);
  ~Embedded();
  Embedded(const Embedded&) = delete;
  Embedded& operator=(const Embedded&) = delete;

  const penstock_file_system_ops& ops() const { return ops_; }
  void* self() const { return self_; }
  const penstock_file_system_options& options() const { return options_; }
  bool has(unsigned flag) const { return (options_.flags & flag) != 0; }
  // No function changes anything.
  bool is_read_only() const { return read_only_; }
  // Tells file systems of this process apart (fs::Identity::volume).
  uint64_t volume() const { return volume_; }
  uint64_t verifier() const { return verifier_; }

  // Logs a mistake of the host's functions, now and then.
  void Blame(std::string_view function, std::string_view what) const;
  // The destructor calls this function with `self`, unless it is null.
  void Own(void (*destroy)(void*)) { ops_.destroy = destroy; }

 private:
  penstock_file_system_ops ops_;
  void* const self_;
  const penstock_file_system_options options_;
  const bool read_only_;
  const uint64_t volume_;
  const uint64_t verifier_;
  mutable LogLimit told_{std::chrono::seconds(1)};
};

// Whether the calling thread is in a function of a host's file system.
bool IsInEmbeddedFunction();

// Calls the functions for one caller, and checks their results. For one thread. A function that the table lacks must
// not be called, unless a method says what it does then.
class EmbeddedCalls {
 public:
  // `context` outlives this object.
  EmbeddedCalls(const Embedded& files, const fs::RequestContext& context);

  const Embedded& files() const { return files_; }
  const fs::Credentials& caller() const { return context_.credentials; }

  fs::Result<penstock_handle> Root();
  fs::Result<fs::Attributes> GetAttributes(const penstock_handle& object);
  fs::Result<void> SetAttributes(const penstock_handle& object, const penstock_new_attributes& values);
  fs::Result<penstock_handle> Lookup(const penstock_handle& directory, const std::string& name);
  fs::Result<std::string> ReadLink(const penstock_handle& symlink);
  // Reads once. Returns the number of octets.
  fs::Result<size_t> Read(const penstock_handle& file, Bytes into, uint64_t offset);
  // Writes once. `stability` is what was asked for, and becomes what was done.
  fs::Result<size_t> Write(const penstock_handle& file, ConstBytes data, uint64_t offset, fs::Stability& stability);
  // Succeeds without the function.
  fs::Result<void> Commit(const penstock_handle& file);
  uint64_t WriteVerifier();

  // What `read_directory` has given. Its views are valid until `take` returns.
  struct Entry {
    std::string_view name;
    uint64_t file_id = 0;
    uint64_t cookie = 0;
    std::optional<penstock_handle> handle{};
    std::optional<fs::Attributes> attributes{};
  };
  // Calls `take` for the entries, until it returns false. Returns true if the directory has ended.
  fs::Result<bool> ReadDirectory(const penstock_handle& directory, uint64_t cookie,
                                 const std::function<bool(const Entry&)>& take);

  fs::Result<penstock_handle> Create(const penstock_handle& directory, const std::string& name,
                                     const penstock_new_attributes& attributes);
  fs::Result<penstock_handle> MakeDirectory(const penstock_handle& directory, const std::string& name,
                                            const penstock_new_attributes& attributes);
  fs::Result<penstock_handle> MakeSymlink(const penstock_handle& directory, const std::string& name,
                                          const std::string& target, const penstock_new_attributes& attributes);
  fs::Result<penstock_handle> MakeNode(const penstock_handle& directory, const std::string& name,
                                       const fs::NodeType& type, const penstock_new_attributes& attributes);
  fs::Result<void> Remove(const penstock_handle& directory, const std::string& name);
  fs::Result<void> RemoveDirectory(const penstock_handle& directory, const std::string& name);
  fs::Result<void> Rename(const penstock_handle& from_directory, const std::string& from,
                          const penstock_handle& to_directory, const std::string& to);
  fs::Result<void> Link(const penstock_handle& file, const penstock_handle& directory, const std::string& name);

  fs::Result<fs::AccessMask> Access(const penstock_handle& object, fs::AccessMask wanted);
  // Without the function, all numbers are zero.
  fs::Result<fs::Space> GetSpace(const penstock_handle& object);

  fs::Result<std::vector<std::byte>> GetXattr(const penstock_handle& object, const std::string& name);
  fs::Result<void> SetXattr(const penstock_handle& object, const std::string& name, ConstBytes value,
                            fs::XattrMode mode);
  fs::Result<void> RemoveXattr(const penstock_handle& object, const std::string& name);
  // Sorted.
  fs::Result<std::vector<std::string>> ListXattrs(const penstock_handle& object);

  fs::Result<fs::SeekReply> Seek(const penstock_handle& file, uint64_t offset, fs::SeekWhat what, uint64_t size);
  fs::Result<void> Allocate(const penstock_handle& file, uint64_t offset, uint64_t length);
  fs::Result<void> Deallocate(const penstock_handle& file, uint64_t offset, uint64_t length);
  // Copies at least one octet, and at most `count`.
  fs::Result<uint64_t> Copy(const penstock_handle& from, uint64_t from_offset, const penstock_handle& to,
                            uint64_t to_offset, uint64_t count);

  fs::Result<void> Pin(const penstock_handle& file);
  void Unpin(const penstock_handle& file);

 private:
  using FromHost = int64_t;  // what a function returns
  // Calls `function`, which may throw, and which returns FromHost. Returns its error.
  template <class Function>
  fs::Result<FromHost> Call(const char* name, Function function);
  // The same for a function whose success is zero.
  template <class Function>
  fs::Result<void> Do(const char* name, Function function);
  // The same for a function that makes a handle.
  template <class Function>
  fs::Result<penstock_handle> Find(const char* name, Function function);
  fs::Result<fs::Attributes> Checked(const char* name, const penstock_attributes& attributes) const;
  bool IsValid(const penstock_handle& handle) const { return handle.size > 0 && handle.size <= PENSTOCK_HANDLE_SIZE; }
  // Returns kServerFault, and logs it.
  std::unexpected<fs::Error> Fault(std::string_view function, std::string_view what) const;

  const Embedded& files_;
  const fs::RequestContext& context_;
  const std::string address_;
  const penstock_caller caller_;
};

}  // namespace penstock::library
