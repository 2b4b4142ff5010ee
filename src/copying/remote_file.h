// An open regular file of a server.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "copying/remote_tree.h"

namespace penstock::copying {

class RemoteFile final : public File {
 public:
  RemoteFile(RemoteTree& tree, std::unique_ptr<client::File> file, Attributes attributes);
  ~RemoteFile() override;

  const void* tree() const override { return &tree_; }
  unsigned buffers_per_read() const override { return tree_.buffers_per_read(); }
  Task<Result<Slice>> Read(uint64_t offset, Bytes into) override;
  Task<Result<uint32_t>> Write(uint64_t offset, ConstBytes from) override;
  Task<Result<std::vector<Extent>>> DataIn(Extent range) override;
  Task<Result<std::optional<uint64_t>>> CopyFrom(File& source, Extent range) override;
  Task<Result<bool>> Sync() override;
  Task<Result<void>> SetSize(uint64_t size) override;
  Task<Result<void>> SetAttributes(const NewAttributes& attributes) override;
  Task<Result<void>> Close() override;

 private:
  Task<bool> Clone(client::File& source, Extent range, uint64_t source_size);
  void Note(const client::Verifier& verifier);

  RemoteTree& tree_;
  const std::unique_ptr<client::File> file_;
  bool seeks_ = true;   // the server tells holes
  bool clones_ = true;  // the server shares storage between files
  // The verifier of the writes since the last Sync().
  std::optional<client::Verifier> verifier_;
  bool mixed_ = false;  // they had different ones
};

}  // namespace penstock::copying
