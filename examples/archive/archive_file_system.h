// An archive as a file system that penstock::server::Server can serve.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "archive_tree.h"
#include "fs/read_only_file_system.h"

namespace penstock::examples {

// Any thread: the archive never changes, so that no method needs a lock or waits. A handle is the archive's fingerprint
// and the number of a node. So handles stay good when the server starts again with the same archive, and are stale if
// the archive has changed. A client could make up the handle of a node, and the mode bits of the node would still
// apply.
class ArchiveFileSystem final : public fs::ReadOnlyFileSystem {
 public:
  explicit ArchiveFileSystem(Archive archive) : archive_(std::move(archive)) {}

  fs::Handle Root() const override { return HandleOf(Archive::kRoot); }
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

 private:
  fs::Handle HandleOf(size_t index) const;
  fs::Result<const Node*> Find(const fs::Handle& handle) const;
  // Runs `look(node)`, which returns a Result<T>, and adds the node's attributes to the answer.
  template <class T, class Function>
  fs::Observed<T> Observe(const fs::Handle& object, Function look) const;

  const Archive archive_;
};

}  // namespace penstock::examples
