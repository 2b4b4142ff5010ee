#include "cli/byte_source.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <deque>
#include <utility>

#include "base/data.h"
#include "base/file_io.h"
#include "base/result.h"
#include "base/signal.h"

namespace penstock::cli {
namespace {

using client::Result;

client::Error LocalError(const std::string& name, int number) {
  return {fmt::format("{}: {}", name, DescribeErrno(number)), std::nullopt, number};
}

class RemoteSource final : public ByteSource {
 public:
  RemoteSource(ClientRuntime& runtime, client::Mount& mount, std::unique_ptr<client::File> file, ReadOptions options)
      : runtime_(runtime),
        file_(std::move(file)),
        ahead_(std::max(options.ahead, 1u)),
        piece_(std::min(options.piece, mount.sizes().read)),
        next_(options.offset) {}

  Task<Result<ConstBytes>> Next() override;
  Task<Result<void>> Close() override;

 private:
  struct Piece {
    BufferRef buffer;
    uint64_t offset = 0;
    uint32_t count = 0;
    bool done = false;
    std::optional<client::Error> error{};
  };

  void ReadAhead();
  Task<void> Fill(Piece& piece);

  ClientRuntime& runtime_;
  const std::unique_ptr<client::File> file_;
  const unsigned ahead_;
  const uint32_t piece_;
  uint64_t next_;  // the offset of the next READ
  std::deque<std::unique_ptr<Piece>> pieces_;
  BufferRef given_;  // the octets that the caller has
  bool ended_ = false;
  size_t running_ = 0;
  Signal filled_;
};

// Begins READs within the size that the file had when it was opened, and one behind it: the file may have grown.
void RemoteSource::ReadAhead() {
  while (!ended_ && pieces_.size() < ahead_ && (pieces_.empty() || next_ < file_->node().attributes.size)) {
    auto piece = std::make_unique<Piece>();
    piece->offset = std::exchange(next_, next_ + piece_);
    piece->buffer = runtime_.loop().buffers().Allocate(piece_);
    pieces_.push_back(std::move(piece));
    Spawn(Fill(*pieces_.back()));
  }
}

Task<void> RemoteSource::Fill(Piece& piece) {
  ++running_;
  for (bool eof = false; !eof && piece.count < piece_;) {
    const Bytes rest = piece.buffer->bytes().first(piece_).subspan(piece.count);
    auto read = co_await file_->Read(piece.offset + piece.count, rest);
    if (!read) {
      piece.error = std::move(read).error();
      break;
    }
    piece.count += read->count;
    eof = read->eof || read->count == 0;
  }
  piece.done = true;
  --running_;
  filled_.Notify();
}

Task<Result<ConstBytes>> RemoteSource::Next() {
  given_.Reset();
  ReadAhead();
  if (pieces_.empty()) co_return ConstBytes();
  while (!pieces_.front()->done) co_await filled_;
  const auto piece = std::move(pieces_.front());
  pieces_.pop_front();
  if (piece->error) {
    ended_ = true;
    co_return std::unexpected(*piece->error);
  }
  // Another client may have made the file longer behind a piece that was its end. Nothing may be left out, so this is
  // the end.
  if (piece->count < piece_) ended_ = true;
  given_ = piece->buffer;
  co_return ConstBytes(given_->bytes().first(piece->count));
}

Task<Result<void>> RemoteSource::Close() {
  ended_ = true;
  while (running_ > 0) co_await filled_;
  co_return co_await file_->Close();
}

class LocalSource final : public ByteSource {
 public:
  LocalSource(ClientRuntime& runtime, FileDescriptor file, std::string name)
      : runtime_(runtime),
        file_(std::move(file)),
        name_(std::move(name)),
        buffer_(runtime.loop().buffers().Allocate(kPiece)) {}

  Task<Result<ConstBytes>> Next() override;
  Task<Result<void>> Close() override { co_return Result<void>(); }

 private:
  static constexpr size_t kPiece = 1 << 20;

  ClientRuntime& runtime_;
  const FileDescriptor file_;
  const std::string name_;
  const BufferRef buffer_;
};

// Reads standard input through its descriptor, which stays open.
Task<Result<ConstBytes>> LocalSource::Next() {
  const int fd = file_ ? file_.get() : STDIN_FILENO;
  const Bytes into = buffer_->bytes().first(kPiece);
  const auto read_some = [fd, into]() -> penstock::Result<size_t, int> {
    for (;;) {
      const ssize_t count = ::read(fd, into.data(), into.size());
      if (count >= 0) return static_cast<size_t>(count);
      if (errno != EINTR) return std::unexpected(errno);
    }
  };
  const auto count = co_await Offload(runtime_.loop(), runtime_.workers(), read_some);
  if (!count) co_return std::unexpected(LocalError(name_, count.error()));
  co_return ConstBytes(into.first(*count));
}

}  // namespace

Task<Result<std::unique_ptr<ByteSource>>> OpenRemote(ClientRuntime& runtime, client::Mount& mount, client::Node node,
                                                     std::string name, ReadOptions options) {
  PENSTOCK_CO_CHECK(client::CheckRegular(node, name));
  PENSTOCK_CO_TRY(auto file, co_await mount.OpenFile(node, name, client::Access::kRead));
  co_return std::make_unique<RemoteSource>(runtime, mount, std::move(file), options);
}

Task<Result<std::unique_ptr<ByteSource>>> OpenRemote(ClientRuntime& runtime, const Mounted& at, ReadOptions options) {
  PENSTOCK_CO_TRY(client::Node node, co_await at.Resolve());
  auto opened = co_await OpenRemote(runtime, *at.mount, std::move(node), at.name, options);
  if (!opened) co_return std::unexpected(at.Named(std::move(opened).error()));
  co_return opened;
}

Task<Result<std::unique_ptr<ByteSource>>> OpenLocal(ClientRuntime& runtime, std::string name) {
  if (name == "-") co_return std::make_unique<LocalSource>(runtime, FileDescriptor(-1), "standard input");
  const auto open_it = [name] {
    const int opened = ::open(name.c_str(), O_RDONLY | O_CLOEXEC);
    return std::pair(opened, errno);
  };
  const auto [fd, number] = co_await Offload(runtime.loop(), runtime.workers(), open_it);
  if (fd < 0) co_return std::unexpected(LocalError(name, number));
  co_return std::make_unique<LocalSource>(runtime, FileDescriptor(fd), name);
}

Task<Result<void>> WriteBytes(ClientRuntime& runtime, ConstBytes octets) {
  const auto write = [octets] { return WriteAll(STDOUT_FILENO, octets); };
  const auto written = co_await Offload(runtime.loop(), runtime.workers(), write);
  if (!written) co_return std::unexpected(LocalError("standard output", written.error()));
  co_return Result<void>();
}

}  // namespace penstock::cli
