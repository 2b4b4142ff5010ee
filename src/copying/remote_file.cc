#include "copying/remote_file.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/result.h"

namespace penstock::copying {

RemoteFile::RemoteFile(RemoteTree& tree, std::unique_ptr<client::File> file, Attributes attributes)
    : tree_(tree), file_(std::move(file)) {
  attributes_ = std::move(attributes);
}
RemoteFile::~RemoteFile() = default;

Task<Result<Slice>> RemoteFile::Read(uint64_t offset, Bytes into) {
  auto read = co_await file_->Fetch(offset, into);
  if (!read) co_return tree_.Reason(read.error(), file_->name());
  co_return std::move(read->octets);
}

void RemoteFile::Note(const client::Verifier& verifier) {
  if (verifier_ && *verifier_ != verifier) mixed_ = true;
  verifier_ = verifier;
}

Task<Result<uint32_t>> RemoteFile::Write(uint64_t offset, ConstBytes from) {
  const auto written = co_await file_->Write(offset, from);
  if (!written) co_return tree_.Reason(written.error(), file_->name());
  Note(written->verifier);
  co_return written->count;
}

Task<Result<std::vector<Extent>>> RemoteFile::DataIn(Extent range) {
  using Content = client::File::Content;
  std::vector<Extent> found;
  for (uint64_t at = range.begin; at < range.end && seeks_;) {
    const auto data = co_await file_->Seek(at, Content::kData);
    if (data && (!*data || **data >= range.end)) co_return found;
    auto hole = data;
    if (data) hole = co_await file_->Seek(**data, Content::kHole);
    if (!hole && hole.error().status != Status::kNotSupported && hole.error().number != ENXIO) {
      co_return tree_.Reason(hole.error(), file_->name());
    }
    // A server without this operation, or a file that has become shorter, which reading tells.
    seeks_ = hole.has_value();
    if (!hole) break;
    at = std::min(range.end, hole->value_or(range.end));
    found.push_back({**data, at});
  }
  if (!seeks_) co_return std::vector{range};
  co_return found;
}

// The server shares only whole blocks.
Task<bool> RemoteFile::Clone(client::File& source, Extent range, uint64_t source_size) {
  constexpr uint64_t kBlock = 4096;
  const bool to_end = range.end == source_size;
  if (!clones_ || range.begin % kBlock != 0 || (range.end % kBlock != 0 && !to_end)) co_return false;
  const uint64_t length = to_end ? 0 : range.size();
  const auto cloned = co_await file_->CloneFrom(source, range.begin, range.begin, length);
  clones_ = cloned.has_value();
  co_return clones_;
}

Task<Result<std::optional<uint64_t>>> RemoteFile::CopyFrom(File& source, Extent range) {
  if (source.tree() != tree()) co_return std::nullopt;
  client::File& from = *dynamic_cast<RemoteFile&>(source).file_;
  if (co_await Clone(from, range, source.attributes().size)) co_return range.size();
  const auto copied = co_await file_->CopyFrom(from, range.begin, range.begin, range.size());
  if (!copied) {
    if (IsFull(copied.error()) || !copied.error().status) co_return tree_.Reason(copied.error(), from.name());
    // The server cannot do that. Otherwise reading and writing will tell the error.
    co_return std::nullopt;
  }
  if (copied->count == 0) co_return std::nullopt;
  if (copied->verifier) Note(*copied->verifier);
  co_return copied->count;
}

// If the server restarts, it may lose octets that were not committed (RFC 1813 §4.11).
Task<Result<bool>> RemoteFile::Sync() {
  const auto committed = co_await file_->Commit();
  if (!committed) co_return tree_.Reason(committed.error(), file_->name());
  // What was written while the COMMIT was under way counts for the next one, which compares with the same verifier.
  if (!mixed_ && (!verifier_ || *verifier_ == *committed)) co_return true;
  verifier_.reset();
  mixed_ = false;
  co_return false;
}

Task<Result<void>> RemoteFile::SetSize(uint64_t size) {
  const auto set = co_await file_->SetSize(size);
  if (!set) co_return tree_.Reason(set.error(), file_->name());
  co_return Result<void>();
}

Task<Result<void>> RemoteFile::SetAttributes(const NewAttributes& attributes) {
  const auto set = co_await tree_.mount().SetAttributes(file_->node().handle, file_->name(), attributes);
  if (!set) co_return tree_.Reason(set.error(), file_->name());
  co_return Result<void>();
}

Task<Result<void>> RemoteFile::Close() {
  const auto closed = co_await file_->Close();
  if (!closed) co_return tree_.Reason(closed.error(), file_->name());
  co_return Result<void>();
}

}  // namespace penstock::copying
