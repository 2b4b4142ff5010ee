#include "client/copy.h"

#include "base/file_io.h"
#include "base/result.h"
#include "client/pieces.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace penstock::client {
namespace {

// One copy of one file. Transfer() is the work of a lane on a piece.
class Copy {
 public:
  Copy(Mount& mount, Workers& workers, File& file, int local_fd, const CopyOptions& options)
      : mount_(mount), workers_(workers), file_(file), local_fd_(local_fd), options_(options) {}
  virtual ~Copy() = default;

  // Transfers the octets [0, size) in pieces of `piece` octets.
  Task<Result<void>> Run(uint64_t size, uint32_t piece) {
    done_ = 0;
    const unsigned at_once = options_.in_order ? 1 : options_.in_flight;
    return MovePieces(size, piece, at_once,
                      [this, size](uint64_t at, uint32_t count) { return Move(at, count, size); });
  }

 protected:
  // Returns how many octets it moved, at least one.
  virtual Task<Result<uint32_t>> Transfer(uint64_t offset, Bytes buffer) = 0;

  Error LocalError(const char* verb, int error) const {
    return {fmt::format("cannot {} {}: {}", verb, options_.local_name, DescribeErrno(error)), std::nullopt, error};
  }

  Task<Result<void>> WriteLocal(uint64_t offset, ConstBytes bytes) {
    const auto write = [fd = local_fd_, in_order = options_.in_order, offset, bytes] {
      return in_order ? WriteAll(fd, bytes) : WriteAllAt(fd, bytes, offset);
    };
    const auto written = co_await Offload(mount_.loop(), workers_, write);
    if (!written) co_return std::unexpected(LocalError("write", written.error()));
    co_return Result<void>();
  }

  Task<Result<void>> ReadLocal(uint64_t offset, Bytes bytes) {
    const auto read = co_await Offload(mount_.loop(), workers_,
                                       [fd = local_fd_, offset, bytes] { return ReadUpTo(fd, bytes, offset); });
    if (!read) co_return std::unexpected(LocalError("read", read.error()));
    if (*read < bytes.size()) {
      co_return std::unexpected(
          Error{fmt::format("{} became shorter while it was copied", options_.local_name), std::nullopt});
    }
    co_return Result<void>();
  }

  Mount& mount_;
  Workers& workers_;
  File& file_;
  const int local_fd_;
  const CopyOptions& options_;

 private:
  // Transfers one piece.
  Task<Result<void>> Move(uint64_t at, uint32_t count, uint64_t size) {
    const BufferRef buffer = mount_.loop().buffers().Allocate(count);
    const uint64_t end = at + count;
    while (at < end) {
      if (options_.stops && options_.stops()) {
        co_return std::unexpected(Error{fmt::format("{}: cancelled", file_.name()), std::nullopt, ECANCELED});
      }
      PENSTOCK_CO_TRY(const uint32_t moved, co_await Transfer(at, buffer->bytes().first(end - at)));
      at += moved;
      done_ += moved;
      if (options_.progress) options_.progress(done_, size);
    }
    co_return Result<void>();
  }

  uint64_t done_ = 0;  // octets of this run
};

class DownloadCopy final : public Copy {
 public:
  DownloadCopy(Mount& mount, Workers& workers, File& from, int local_fd, const CopyOptions& options, uint64_t size)
      : Copy(mount, workers, from, local_fd, options), size_(size) {}

  Task<Result<void>> Run() { return Copy::Run(size_, mount_.sizes().read); }

  Task<Result<void>> CutLocal() {
    const int error = co_await Offload(mount_.loop(), workers_, [fd = local_fd_, size = size_] {
      return ::ftruncate(fd, static_cast<off_t>(size)) == 0 ? 0 : errno;
    });
    if (error != 0) co_return std::unexpected(LocalError("write", error));
    co_return Result<void>();
  }

 private:
  Task<Result<uint32_t>> Transfer(uint64_t offset, Bytes buffer) override {
    PENSTOCK_CO_TRY(const File::ReadReply read, co_await file_.Read(offset, buffer));
    if (read.count == 0) {
      co_return std::unexpected(Error{fmt::format("{}: became shorter while it was copied: {} octets when the copy "
                                                  "began, {} at most now",
                                                  file_.name(), size_, offset),
                                      std::nullopt});
    }
    PENSTOCK_CO_CHECK(co_await WriteLocal(offset, buffer.first(read.count)));
    co_return read.count;
  }

  const uint64_t size_;
};

class UploadCopy final : public Copy {
 public:
  using Copy::Copy;

  // Whether everything that was written since the last call of Holds() is on stable storage, if COMMIT gave the
  // verifier `committed`.
  bool Holds(const Verifier& committed) {
    const bool holds = !mixed_ && (!verifier_ || *verifier_ == committed);
    verifier_.reset();
    mixed_ = false;
    return holds;
  }

 private:
  Task<Result<uint32_t>> Transfer(uint64_t offset, Bytes buffer) override {
    PENSTOCK_CO_CHECK(co_await ReadLocal(offset, buffer));
    PENSTOCK_CO_TRY(const File::WriteReply written, co_await file_.Write(offset, buffer));
    if (verifier_ && *verifier_ != written.verifier) mixed_ = true;
    verifier_ = written.verifier;
    co_return written.count;
  }

  std::optional<Verifier> verifier_;
  bool mixed_ = false;
};

}  // namespace

Task<Result<uint64_t>> Download(Mount& mount, Workers& workers, File& from, int local_fd, CopyOptions options) {
  // The size is read after the file is open, because an earlier size may be old.
  PENSTOCK_CO_TRY(const Attributes attributes, co_await mount.GetAttributes(from.node().handle, from.name()));
  DownloadCopy copy(mount, workers, from, local_fd, options, attributes.size);
  PENSTOCK_CO_CHECK(co_await copy.Run());
  if (!options.in_order) PENSTOCK_CO_CHECK(co_await copy.CutLocal());
  co_return attributes.size;
}

Task<Result<uint64_t>> Upload(Mount& mount, Workers& workers, int local_fd, uint64_t size, File& to,
                              CopyOptions options) {
  constexpr int kMostPasses = 5;
  UploadCopy copy(mount, workers, to, local_fd, options);
  for (int pass = 0; pass < kMostPasses; ++pass) {
    PENSTOCK_CO_CHECK(co_await copy.Run(size, mount.sizes().write));
    PENSTOCK_CO_TRY(const Verifier committed, co_await to.Commit());
    if (copy.Holds(committed)) co_return size;
  }
  co_return std::unexpected(
      Error{fmt::format("{}: the server keeps losing uncommitted data", to.name()), std::nullopt});
}

}  // namespace penstock::client
