// The read-only directories above exports (RFC 8881 §7.3, RFC 7530 §7.3). There is one directory for each component of
// an export's path. Handles and fileids are hashes of the paths, so they stay valid when the server restarts.
//
// This file system holds the directories of all exports. Namespace decides which of them a client sees, and which of
// them the root of an export replaces.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "fs/file_system.h"

namespace penstock::nfs::v4 {

class PseudoFileSystem final : public fs::FileSystem {
 public:
  struct Node {
    std::string name;
    std::string path;
    uint64_t id = 0;
    Node* parent = nullptr;         // null for the root
    std::vector<Node*> children{};  // sorted by id, which is the order of their cookies
  };

  // All times of the directories are `started`, the start of the server, since the set of directories may change with
  // each start.
  explicit PseudoFileSystem(fs::Timestamp started);

  // Finds or makes the directory of an export's path. To be called before every other method. Returns null if another
  // path has the same id.
  Node* Make(std::string_view path);
  // These return null if the directory does not exist.
  const Node* Find(const fs::Handle& handle) const;
  const Node* Find(std::string_view path) const;
  const Node& root() const { return *nodes_.front(); }
  static fs::Handle HandleOf(const Node& node);

  fs::Handle Root() const override { return HandleOf(root()); }
  const fs::Properties& GetProperties() const override { return properties_; }
  fs::Result<fs::Identity> Identify(const fs::Handle& object) const override {
    return fs::Identity{UINT64_MAX, object};  // no device has this number
  }
  Task<fs::Result<fs::Attributes>> GetAttributes(const fs::RequestContext& context, const fs::Handle& object) override;
  Task<fs::Observed<fs::Node>> Lookup(const fs::RequestContext& context, const fs::Handle& directory,
                                      std::string_view name) override;
  Task<fs::Observed<fs::AccessMask>> Access(const fs::RequestContext& context, const fs::Handle& object,
                                            fs::AccessMask wanted) override;
  Task<fs::Observed<fs::ReadDirectoryReply>> ReadDirectory(const fs::RequestContext& context,
                                                           const fs::Handle& directory,
                                                           const fs::ReadDirectoryArguments& arguments,
                                                           fs::EntrySink& sink) override;
  Task<fs::Observed<fs::Space>> GetSpace(const fs::RequestContext& context, const fs::Handle& object) override;

  // The other operations fail: every object is a directory, and no caller may change it.
  Task<fs::Changed<void>> SetAttributes(const fs::RequestContext& context, const fs::Handle& object,
                                        const fs::NewAttributes& values, std::optional<fs::Timestamp> guard) override;
  Task<fs::Observed<std::string>> ReadLink(const fs::RequestContext& context, const fs::Handle& symlink) override;
  Task<fs::Observed<fs::ReadReply>> Read(const fs::RequestContext& context, const fs::Handle& file, uint64_t offset,
                                         uint32_t count) override;
  Task<fs::Changed<fs::WriteReply>> Write(const fs::RequestContext& context, const fs::Handle& file, uint64_t offset,
                                          const Data& data, fs::Stability stability) override;
  Task<fs::Changed<fs::WriteVerifier>> Commit(const fs::RequestContext& context, const fs::Handle& file) override;
  Task<fs::Changed<fs::Node>> Create(const fs::RequestContext& context, const fs::Handle& directory,
                                     std::string_view name, const fs::CreateHow& how) override;
  Task<fs::Changed<fs::Node>> MakeDirectory(const fs::RequestContext& context, const fs::Handle& directory,
                                            std::string_view name, const fs::NewAttributes& attributes) override;
  Task<fs::Changed<fs::Node>> MakeSymlink(const fs::RequestContext& context, const fs::Handle& directory,
                                          std::string_view name, std::string_view target,
                                          const fs::NewAttributes& attributes) override;
  Task<fs::Changed<fs::Node>> MakeNode(const fs::RequestContext& context, const fs::Handle& directory,
                                       std::string_view name, const fs::NodeType& type,
                                       const fs::NewAttributes& attributes) override;
  Task<fs::Changed<void>> Remove(const fs::RequestContext& context, const fs::Handle& directory,
                                 std::string_view name) override;
  Task<fs::Changed<void>> RemoveDirectory(const fs::RequestContext& context, const fs::Handle& directory,
                                          std::string_view name) override;
  Task<fs::Renamed> Rename(const fs::RequestContext& context, const fs::Handle& from_directory,
                           std::string_view from_name, const fs::Handle& to_directory,
                           std::string_view to_name) override;
  Task<fs::Linked> Link(const fs::RequestContext& context, const fs::Handle& file, const fs::Handle& directory,
                        std::string_view name) override;
  Task<fs::Result<fs::Pinned>> Pin(const fs::RequestContext& context, const fs::Handle& file) override;
  Task<fs::Observed<fs::SeekReply>> Seek(const fs::RequestContext& context, const fs::Handle& file, uint64_t offset,
                                         fs::SeekWhat what) override;
  Task<fs::Changed<void>> Allocate(const fs::RequestContext& context, const fs::Handle& file, uint64_t offset,
                                   uint64_t length) override;
  Task<fs::Changed<void>> Deallocate(const fs::RequestContext& context, const fs::Handle& file, uint64_t offset,
                                     uint64_t length) override;
  Task<fs::Changed<fs::CopyReply>> Copy(const fs::RequestContext& context, const fs::Handle& from, uint64_t from_offset,
                                        const fs::Handle& to, uint64_t to_offset, uint64_t count) override;
  Task<fs::Changed<void>> Clone(const fs::RequestContext& context, const fs::Handle& from, uint64_t from_offset,
                                const fs::Handle& to, uint64_t to_offset, uint64_t count) override;
  Task<fs::Result<void>> Advise(const fs::RequestContext& context, const fs::Handle& file, uint64_t offset,
                                uint64_t count, fs::Advice advice) override;
  Task<fs::Observed<std::vector<std::byte>>> GetXattr(const fs::RequestContext& context, const fs::Handle& object,
                                                      std::string_view name) override;
  Task<fs::Changed<void>> SetXattr(const fs::RequestContext& context, const fs::Handle& object, std::string_view name,
                                   ConstBytes value, fs::XattrMode mode) override;
  Task<fs::Changed<void>> RemoveXattr(const fs::RequestContext& context, const fs::Handle& object,
                                      std::string_view name) override;
  Task<fs::Observed<std::vector<std::string>>> ListXattrs(const fs::RequestContext& context,
                                                          const fs::Handle& object) override;
  Task<fs::Observed<fs::Acls>> GetAcls(const fs::RequestContext& context, const fs::Handle& object) override;
  Task<fs::Changed<void>> SetAcls(const fs::RequestContext& context, const fs::Handle& object,
                                  const fs::NewAcls& acls) override;

 private:
  fs::Attributes AttributesOf(const Node& node) const;
  std::optional<fs::Attributes> AttributesOf(const fs::Handle& handle) const;
  fs::WeakCacheData Unchanged(const fs::Handle& handle) const;
  template <class T>
  fs::Changed<T> Refuse(const fs::Handle& handle, fs::Error error = fs::Error::kReadOnly) const;

  const fs::Timestamp started_;
  fs::Properties properties_;
  std::vector<std::unique_ptr<Node>> nodes_;  // the root first
  std::unordered_map<uint64_t, Node*> by_id_;
};

}  // namespace penstock::nfs::v4
