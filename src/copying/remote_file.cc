#include "copying/remote_file.h"

#include <algorithm>
#include <utility>

#include "base/result.h"

namespace penstock::copying {
namespace {

std::unexpected<Error> Reason(Error error, const std::string& name) {
  error.message = ReasonOf(error, name);
  return std::unexpected(std::move(error));
}

}  // namespace

RemoteFile::RemoteFile(RemoteTree& tree, std::unique_ptr<client::File> file, Attributes attributes) : tree_(tree) {
  attributes_ = std::move(attributes);
  files_.push_back(std::move(file));
}
RemoteFile::~RemoteFile() = default;

Task<void> RemoteFile::Spread(client::Access access) {
  const client::Node node = files_.front()->node();
  // The parts of a tree have numbers of their own in each mount.
  if (node.handle.part != 0) co_return;
  for (size_t i = 1; i < tree_.mounts().size(); ++i) {
    auto file = co_await tree_.mounts()[i]->OpenFile(node, files_.front()->name(), access);
    if (!file) co_return;
    files_.push_back(*std::move(file));
  }
}

client::File& RemoteFile::Next() { return *files_[next_++ % files_.size()]; }

Task<Result<uint32_t>> RemoteFile::Read(uint64_t offset, Bytes into) {
  client::File& file = Next();
  const auto read = co_await file.Read(offset, into);
  if (!read) co_return Reason(read.error(), file.name());
  co_return read->count;
}

void RemoteFile::Note(const client::Verifier& verifier) {
  if (verifier_ && *verifier_ != verifier) mixed_ = true;
  verifier_ = verifier;
}

Task<Result<uint32_t>> RemoteFile::Write(uint64_t offset, ConstBytes from) {
  client::File& file = Next();
  const auto written = co_await file.Write(offset, from);
  if (!written) co_return Reason(written.error(), file.name());
  Note(written->verifier);
  co_return written->count;
}

Task<Result<std::vector<Extent>>> RemoteFile::DataIn(Extent range) { co_return std::vector{range}; }

Task<Result<std::optional<uint64_t>>> RemoteFile::CopyFrom(File&, Extent) { co_return std::nullopt; }

// If the server restarts, it may lose octets that were not committed (RFC 1813 §4.11).
Task<Result<bool>> RemoteFile::Sync() {
  const auto committed = co_await files_.front()->Commit();
  if (!committed) co_return Reason(committed.error(), files_.front()->name());
  const bool holds = !mixed_ && (!verifier_ || *verifier_ == *committed);
  verifier_.reset();
  mixed_ = false;
  co_return holds;
}

Task<Result<void>> RemoteFile::SetSize(uint64_t size) {
  const NewAttributes attributes{.size = size};
  co_return co_await SetAttributes(attributes);
}

Task<Result<void>> RemoteFile::SetAttributes(const NewAttributes& attributes) {
  const client::File& file = *files_.front();
  const auto set = co_await tree_.first().SetAttributes(file.node().handle, file.name(), attributes);
  if (!set) co_return Reason(set.error(), file.name());
  co_return Result<void>();
}

Task<Result<void>> RemoteFile::Close() {
  Result<void> result;
  for (const auto& file : files_) {
    const auto closed = co_await file->Close();
    if (!closed && result) result = Reason(closed.error(), file->name());
  }
  co_return result;
}

}  // namespace penstock::copying
