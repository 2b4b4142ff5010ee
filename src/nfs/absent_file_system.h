// The file system of a referral, which is absent from this server (RFC 8881 §11.3). Its handles are stale for clients
// of versions 2 and 3; version 4 answers NFS4ERR_MOVED and the file system's locations before it asks the file system.
// It has every handle: the export may have served a file system that has moved, and clients have the handles of that.
#pragma once

#include <string>

#include "fs/read_only_file_system.h"

namespace penstock::nfs {

// Every operation fails with fs::Error::kStale. Any thread may use it.
class AbsentFileSystem final : public fs::ReadOnlyFileSystem {
 public:
  fs::Handle Root() const override;
  fs::Result<fs::Identity> Identify(const fs::Handle& object) const override;
  Task<fs::Result<fs::Attributes>> GetAttributes(const fs::RequestContext& context, const fs::Handle& object) override;
  Task<fs::Observed<fs::Node>> Lookup(const fs::RequestContext& context, const fs::Handle& directory,
                                      std::string_view name) override;
  Task<fs::Observed<std::string>> ReadLink(const fs::RequestContext& context, const fs::Handle& symlink) override;
  Task<fs::Observed<fs::ReadReply>> Read(const fs::RequestContext& context, const fs::Handle& file, uint64_t offset,
                                         uint32_t count) override;
  Task<fs::Observed<fs::ReadDirectoryReply>> ReadDirectory(const fs::RequestContext& context,
                                                           const fs::Handle& directory,
                                                           const fs::ReadDirectoryArguments& arguments,
                                                           fs::EntrySink& sink) override;
};

}  // namespace penstock::nfs
