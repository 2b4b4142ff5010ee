#include "rpc/argument_checksum.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/bytes.h"
#include "base/mix.h"
#include "xdr/flatten.h"

namespace penstock::rpc {
namespace {

// The checksummed ranges of arguments, in order: the head, and the end of each sixteenth of the rest.
class Ranges {
 public:
  explicit Ranges(size_t size) : size_(size), end_(std::min(size, kChecksummedHead)) {}

  bool done() const { return range_ > kChecksummedSamples; }
  size_t begin() const { return begin_; }
  size_t end() const { return end_; }
  void Next() {
    const size_t rest = size_ - std::min(size_, kChecksummedHead);
    do {
      if (++range_ > kChecksummedSamples || rest == 0) {
        range_ = kChecksummedSamples + 1;
        return;
      }
      const size_t last = range_ == kChecksummedSamples ? rest % kChecksummedSamples : 0;
      const size_t sample_end = kChecksummedHead + rest / kChecksummedSamples * range_ + last;
      begin_ = std::max(end_, sample_end - std::min(sample_end, kChecksummedSample));
      end_ = std::max(begin_, sample_end);
    } while (begin_ == end_);
  }

 private:
  const size_t size_;
  size_t range_ = 0;
  size_t begin_ = 0, end_;
};

// Mixes the ranges into a checksum. The arguments arrive in pieces, so that a range may be in several of them.
class Sampler {
 public:
  // `size`: of the octets that the ranges are taken from. The checksum begins with `sum`.
  Sampler(size_t size, uint64_t sum) : ranges_(size), sum_(sum) {}

  void Take(ConstBytes piece) {
    const size_t piece_end = at_ + piece.size();
    while (!ranges_.done() && ranges_.begin() + filled_ < piece_end) {
      const size_t from = ranges_.begin() + filled_;
      const ConstBytes octets = piece.subspan(from - at_, std::min(ranges_.end(), piece_end) - from);
      if (filled_ == 0 && octets.size() == ranges_.end() - ranges_.begin()) {
        sum_ = Mix(sum_, octets);
      } else {
        CopyBytes(Bytes(split_).subspan(filled_), octets);
        filled_ += octets.size();
        if (filled_ < ranges_.end() - ranges_.begin()) break;
        sum_ = Mix(sum_, ConstBytes(split_).first(std::exchange(filled_, 0)));
      }
      ranges_.Next();
    }
    at_ = piece_end;
  }
  uint64_t sum() const { return sum_; }

 private:
  Ranges ranges_;
  uint64_t sum_;
  size_t at_ = 0;      // the octets of the earlier pieces
  size_t filled_ = 0;  // the octets of the current range in `split_`
  std::array<std::byte, std::max(kChecksummedHead, kChecksummedSample)> split_;
};

}  // namespace

uint64_t ArgumentChecksum(const xdr::Message& call, size_t arguments_at) {
  const size_t size = call.flat_size() - arguments_at;
  Sampler sampler(std::min(size, kChecksummedSpan), Mix(1, size));
  size_t header = arguments_at;
  xdr::ForEachPiece(call, [&](const auto& piece) {
    ConstBytes octets;
    if constexpr (requires { piece.bytes(); }) {
      octets = piece.bytes();
    } else {
      octets = piece;
    }
    const size_t skipped = std::min(header, octets.size());
    header -= skipped;
    sampler.Take(octets.subspan(skipped));
  });
  return sampler.sum();
}

}  // namespace penstock::rpc
