// A file system of the host as fs::FileSystem: calls the functions of the host on threads of a pool, so that they may
// block, or directly (PENSTOCK_FS_NONBLOCKING).
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/workers.h"
#include "fs/file_system.h"
#include "library/server/adapted_tree.h"

namespace penstock::library {

class AdaptedFileSystem final : public fs::FileSystem {
 public:
  struct Settings {
    SipKey key{};       // signs handles
    uint64_t fsid = 0;  // tells clients which file system it is
  };
  // Asks the host for its root. `pool` outlives the file system, and everything that it has pinned.
  static SetupResult<std::shared_ptr<AdaptedFileSystem>> Make(std::shared_ptr<const Embedded> files, Workers& pool,
                                                              const Settings& settings);

  fs::Handle Root() const override { return tree_.root(); }
  const fs::Properties& GetProperties() const override { return tree_.properties(); }
  fs::Result<fs::Identity> Identify(const fs::Handle& object) const override { return tree_.Identify(object); }

  Task<fs::Result<fs::Attributes>> GetAttributes(const fs::RequestContext& context, const fs::Handle& object) override;
  Task<fs::Changed<void>> SetAttributes(const fs::RequestContext& context, const fs::Handle& object,
                                        const fs::NewAttributes& values, std::optional<fs::Timestamp> guard) override;
  Task<fs::Observed<fs::Node>> Lookup(const fs::RequestContext& context, const fs::Handle& directory,
                                      std::string_view name) override;
  Task<fs::Observed<fs::AccessMask>> Access(const fs::RequestContext& context, const fs::Handle& object,
                                            fs::AccessMask wanted) override;
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
  Task<fs::Observed<fs::ReadDirectoryReply>> ReadDirectory(const fs::RequestContext& context,
                                                           const fs::Handle& directory,
                                                           const fs::ReadDirectoryArguments& arguments,
                                                           fs::EntrySink& sink) override;
  Task<fs::Observed<fs::Space>> GetSpace(const fs::RequestContext& context, const fs::Handle& object) override;
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
  AdaptedFileSystem(std::shared_ptr<const Embedded> files, Workers& pool, const Settings& settings)
      : tree_(std::move(files), settings.key, settings.fsid), pool_(pool) {}

  bool may_block() const { return !tree_.files().has(PENSTOCK_FS_NONBLOCKING); }
  // co_await Run(...) runs `function` where the host wants it.
  template <class Function>
  auto Run(const fs::RequestContext& context, WorkKind work, Function function) {
    return Offload(may_block() ? context.loop : nullptr, &pool_, std::move(function), context.client, work);
  }
  void Unpin(const penstock_handle& file, const ClientKey& client) const;

  AdaptedTree tree_;
  Workers& pool_;
};

}  // namespace penstock::library
