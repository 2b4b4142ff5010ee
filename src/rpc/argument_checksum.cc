#include "rpc/argument_checksum.h"

#include <algorithm>
#include <array>

#include "base/bytes.h"
#include "base/mix.h"
#include "xdr/flatten.h"

namespace penstock::rpc {
namespace {

// Copies the octets in the checksummed ranges from the arguments, which arrive in pieces.
class Sampler {
 public:
  explicit Sampler(size_t size) : size_(size) { SetRange(); }

  void Take(ConstBytes piece) {
    const size_t end = at_ + piece.size();
    while (begin_ < end && !done()) {
      const size_t from = std::max(begin_, at_);
      const size_t to = std::min(end_, end);
      CopyBytes(Bytes(taken_).subspan(filled_), piece.subspan(from - at_, to - from));
      filled_ += to - from;
      begin_ = to;
      if (begin_ == end_) NextRange();
    }
    at_ = end;
  }
  ConstBytes taken() const { return ConstBytes(taken_).first(filled_); }

 private:
  bool done() const { return range_ > kChecksummedSamples; }
  // Range 0 is the head; range i ends at i sixteenths of the rest.
  void SetRange() {
    if (range_ == 0) {
      begin_ = 0;
      end_ = std::min(size_, kChecksummedHead);
      return;
    }
    const size_t rest = size_ - std::min(size_, kChecksummedHead);
    const size_t sample_end = kChecksummedHead + rest / kChecksummedSamples * range_ +
                              (range_ == kChecksummedSamples ? rest % kChecksummedSamples : 0);
    begin_ = std::max(end_, sample_end - std::min(sample_end, kChecksummedSample));
    end_ = std::max(begin_, std::min(size_, sample_end));
  }
  void NextRange() {
    do {
      ++range_;
      if (!done()) SetRange();
    } while (!done() && begin_ == end_);
  }

  const size_t size_;
  size_t at_ = 0;  // the octets of the earlier pieces
  size_t range_ = 0;
  size_t begin_ = 0, end_ = 0;  // the rest of the current range
  size_t filled_ = 0;
  std::array<std::byte, kChecksummedHead + kChecksummedSamples * kChecksummedSample> taken_;
};

}  // namespace

uint64_t ArgumentChecksum(const xdr::Message& call, size_t arguments_at) {
  const size_t size = call.flat_size() - arguments_at;
  Sampler sampler(size);
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
  return Mix(Mix(1, size), sampler.taken());
}

}  // namespace penstock::rpc
