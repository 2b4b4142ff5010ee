// The tree of a file system of the host, as fs::FileSystem describes it: with signed handles, with the rights of
// callers, with the rules of names, and with attributes before and after each change. Every method calls functions of
// the host, and may block.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/siphash.h"
#include "fs/file_system.h"
#include "fs/permission.h"
#include "library/server/changes.h"
#include "library/server/embedded.h"

namespace penstock::library {

// Any thread. The methods are those of fs::FileSystem.
class AdaptedTree {
 public:
  // A handle of one key is bad in trees with another one.
  AdaptedTree(std::shared_ptr<const Embedded> files, const SipKey& key, uint64_t fsid);

  // Asks the host for the root. The other methods require it.
  fs::Result<void> FindRoot();

  const Embedded& files() const { return *files_; }
  const std::shared_ptr<const Embedded>& shared_files() const { return files_; }
  const fs::Properties& properties() const { return properties_; }
  fs::Handle root() const { return HandleOf(root_); }
  fs::Result<fs::Identity> Identify(const fs::Handle& object) const;

  fs::Result<fs::Attributes> GetAttributes(const fs::RequestContext& context, const fs::Handle& object);
  fs::Changed<void> SetAttributes(const fs::RequestContext& context, const fs::Handle& object,
                                  const fs::NewAttributes& values, std::optional<fs::Timestamp> guard);
  fs::Observed<fs::Node> Lookup(const fs::RequestContext& context, const fs::Handle& directory, std::string_view name);
  fs::Observed<fs::AccessMask> Access(const fs::RequestContext& context, const fs::Handle& object,
                                      fs::AccessMask wanted);
  fs::Observed<std::string> ReadLink(const fs::RequestContext& context, const fs::Handle& symlink);
  // Reads into `buffer`, which has room for `count` octets.
  fs::Observed<fs::ReadReply> Read(const fs::RequestContext& context, const fs::Handle& file, uint64_t offset,
                                   uint32_t count, const BufferRef& buffer);
  fs::Changed<fs::WriteReply> Write(const fs::RequestContext& context, const fs::Handle& file, uint64_t offset,
                                    const Data& data, fs::Stability stability);
  fs::Changed<fs::WriteVerifier> Commit(const fs::RequestContext& context, const fs::Handle& file);
  fs::Changed<fs::Node> Create(const fs::RequestContext& context, const fs::Handle& directory, std::string_view name,
                               const fs::CreateHow& how);
  fs::Changed<fs::Node> MakeDirectory(const fs::RequestContext& context, const fs::Handle& directory,
                                      std::string_view name, const fs::NewAttributes& attributes);
  fs::Changed<fs::Node> MakeSymlink(const fs::RequestContext& context, const fs::Handle& directory,
                                    std::string_view name, std::string_view target,
                                    const fs::NewAttributes& attributes);
  fs::Changed<fs::Node> MakeNode(const fs::RequestContext& context, const fs::Handle& directory, std::string_view name,
                                 const fs::NodeType& type, const fs::NewAttributes& attributes);
  fs::Changed<void> Remove(const fs::RequestContext& context, const fs::Handle& directory, std::string_view name);
  fs::Changed<void> RemoveDirectory(const fs::RequestContext& context, const fs::Handle& directory,
                                    std::string_view name);
  fs::Renamed Rename(const fs::RequestContext& context, const fs::Handle& from_directory, std::string_view from_name,
                     const fs::Handle& to_directory, std::string_view to_name);
  fs::Linked Link(const fs::RequestContext& context, const fs::Handle& file, const fs::Handle& directory,
                  std::string_view name);
  fs::Observed<fs::ReadDirectoryReply> ReadDirectory(const fs::RequestContext& context, const fs::Handle& directory,
                                                     const fs::ReadDirectoryArguments& arguments, fs::EntrySink& sink);
  fs::Observed<fs::Space> GetSpace(const fs::RequestContext& context, const fs::Handle& object);
  // The host keeps the file until Embedded's `unpin`, if it has that function. Returns the handle for it.
  fs::Result<penstock_handle> Pin(const fs::RequestContext& context, const fs::Handle& file);

  fs::Observed<fs::SeekReply> Seek(const fs::RequestContext& context, const fs::Handle& file, uint64_t offset,
                                   fs::SeekWhat what);
  fs::Changed<void> Allocate(const fs::RequestContext& context, const fs::Handle& file, uint64_t offset,
                             uint64_t length);
  fs::Changed<void> Deallocate(const fs::RequestContext& context, const fs::Handle& file, uint64_t offset,
                               uint64_t length);
  fs::Changed<fs::CopyReply> Copy(const fs::RequestContext& context, const fs::Handle& from, uint64_t from_offset,
                                  const fs::Handle& to, uint64_t to_offset, uint64_t count);
  // Fails: hosts cannot clone files.
  fs::Changed<void> Clone(const fs::RequestContext& context, const fs::Handle& from, const fs::Handle& to);
  fs::Result<void> Advise(const fs::RequestContext& context, const fs::Handle& file);

  fs::Observed<std::vector<std::byte>> GetXattr(const fs::RequestContext& context, const fs::Handle& object,
                                                std::string_view name);
  fs::Changed<void> SetXattr(const fs::RequestContext& context, const fs::Handle& object, std::string_view name,
                             ConstBytes value, fs::XattrMode mode);
  fs::Changed<void> RemoveXattr(const fs::RequestContext& context, const fs::Handle& object, std::string_view name);
  fs::Observed<std::vector<std::string>> ListXattrs(const fs::RequestContext& context, const fs::Handle& object);
  fs::Observed<fs::Acls> GetAcls(const fs::RequestContext& context, const fs::Handle& object);
  fs::Changed<void> SetAcls(const fs::RequestContext& context, const fs::Handle& object, const fs::NewAcls& acls);

 private:
  // An object that a call names, with its attributes when the call began.
  struct Object {
    penstock_handle handle{};
    fs::Attributes attributes;

    bool is_directory() const { return attributes.type == fs::FileType::kDirectory; }
  };
  // An entry of a directory; nothing if the name does not exist.
  using Entry = std::optional<Object>;

  fs::Handle HandleOf(const penstock_handle& handle) const;
  uint64_t TagOf(ConstBytes octets) const { return SipHash(key_, octets); }
  fs::Result<penstock_handle> Verified(const fs::Handle& handle) const;
  fs::Result<fs::Attributes> AttributesOf(EmbeddedCalls& calls, const penstock_handle& object) const;
  fs::Result<Object> Reach(EmbeddedCalls& calls, const fs::Handle& handle) const;
  bool IsRoot(const penstock_handle& handle) const;
  // The error for a change that the host has no function for.
  fs::Error Missing() const { return properties_.read_only ? fs::Error::kReadOnly : fs::Error::kNotSupported; }

  // Runs `look(calls, object)`, which returns a Result<T> and may refresh the object's attributes.
  template <class T, class Function>
  fs::Observed<T> Observe(const fs::RequestContext& context, const fs::Handle& object, Function look);
  // Runs `change(calls, object)`, which returns a Result<T>. Observes the object before and after it.
  template <class T, class Function>
  fs::Changed<T> Change(const fs::RequestContext& context, const fs::Handle& object, Function change);
  // The same for an object that makes an entry in a directory. `make` returns a Result<penstock_handle>.
  template <class Function>
  fs::Changed<fs::Node> Make(const fs::RequestContext& context, const fs::Handle& directory, std::string_view name,
                             bool can, Function make);

  // ---- rights. If the host checks them, all callers may do everything.
  bool checks() const { return !files_->has(PENSTOCK_FS_CHECKS_PERMISSIONS); }
  fs::Rights RightsTo(const EmbeddedCalls& calls, const Object& object) const;
  bool Owns(const EmbeddedCalls& calls, const Object& object) const;
  fs::Result<void> MayRead(const EmbeddedCalls& calls, const Object& file) const;
  fs::Result<void> MayWrite(const EmbeddedCalls& calls, const Object& file) const;
  fs::Result<void> MayChangeEntries(const EmbeddedCalls& calls, const Object& directory) const;
  // The rule of the sticky bit.
  fs::Result<void> MayTakeAway(const EmbeddedCalls& calls, const Object& directory, const Object& entry) const;
  fs::Result<void> MaySet(const EmbeddedCalls& calls, const Object& object, const fs::NewAttributes& values) const;

  // ---- attributes
  fs::Result<void> Apply(EmbeddedCalls& calls, const Object& object, const fs::NewAttributes& values);
  // The attributes of a new object in a directory, as the host gets them.
  fs::Result<penstock_new_attributes> FirstAttributes(const EmbeddedCalls& calls, const Object& directory,
                                                      fs::FileType type, const fs::NewAttributes& asked) const;
  // Clears the set-id bits before a caller that is not root writes.
  fs::Result<void> DropSetId(EmbeddedCalls& calls, const Object& file);

  // ---- names
  // Checks that the object is a directory that the caller may search, and finds the entry.
  fs::Result<Entry> Search(EmbeddedCalls& calls, const Object& directory, std::string_view name);
  fs::Result<fs::Node> CreateFile(EmbeddedCalls& calls, const Object& directory, std::string_view name,
                                  const fs::CreateHow& how);
  fs::Result<fs::Node> ReuseFile(EmbeddedCalls& calls, const Object& existing, const fs::CreateHow& how);
  fs::Result<fs::Node> NodeOf(EmbeddedCalls& calls, const penstock_handle& handle);
  fs::Result<void> TakeAway(EmbeddedCalls& calls, const Object& directory, std::string_view name, bool is_directory);
  fs::Result<void> Move(EmbeddedCalls& calls, const Object& from, std::string_view from_name, const Object& to,
                        std::string_view to_name);
  fs::Result<void> AddLink(EmbeddedCalls& calls, const Object& file, const Object& directory, std::string_view name);
  fs::Result<bool> List(EmbeddedCalls& calls, const Object& directory, const fs::ReadDirectoryArguments& arguments,
                        fs::EntrySink& sink);
  // Completes an entry for READDIRPLUS. Returns false if it has vanished.
  fs::Result<bool> Complete(EmbeddedCalls& calls, const Object& directory, const std::string& name,
                            std::optional<penstock_handle> handle, fs::DirectoryEntry& entry);

  // ---- data
  fs::Result<void> CheckRange(uint64_t offset, uint64_t length) const;
  // Reads until `into` is full, or the file ends.
  fs::Result<size_t> ReadAll(EmbeddedCalls& calls, const penstock_handle& file, Bytes into, uint64_t offset);
  // Writes all octets, or as many as possible; fails if that is none.
  fs::Result<size_t> WriteAll(EmbeddedCalls& calls, const penstock_handle& file, ConstBytes data, uint64_t offset,
                              fs::Stability& stability);
  fs::Result<uint64_t> CopyStep(EmbeddedCalls& calls, const Object& from, uint64_t from_offset, const Object& to,
                                uint64_t to_offset, uint64_t count);
  fs::Result<void> CheckXattr(const Object& object, std::string_view name, fs::Error other_types) const;

  const std::shared_ptr<const Embedded> files_;
  const SipKey key_;
  const uint64_t fsid_;
  penstock_handle root_{};
  fs::Properties properties_;
  Changes changes_;
};

template <class T, class Function>
fs::Observed<T> AdaptedTree::Observe(const fs::RequestContext& context, const fs::Handle& object, Function look) {
  EmbeddedCalls calls(*files_, context);
  fs::Result<Object> found = Reach(calls, object);
  if (!found) return {std::unexpected(found.error()), {}};
  fs::Result<T> result = look(calls, *found);
  return {std::move(result), found->attributes};
}

template <class T, class Function>
fs::Changed<T> AdaptedTree::Change(const fs::RequestContext& context, const fs::Handle& object, Function change) {
  EmbeddedCalls calls(*files_, context);
  const Changes::Change under_way(changes_, object);
  const fs::Result<Object> found = Reach(calls, object);
  if (!found) return {std::unexpected(found.error()), {}};
  fs::Changed<T> changed{change(calls, *found), {}};
  if (const auto after = AttributesOf(calls, found->handle)) changed.object.after = *after;
  if (under_way.IsAlone()) changed.object.before = fs::BeforeOf(found->attributes);
  return changed;
}

}  // namespace penstock::library
