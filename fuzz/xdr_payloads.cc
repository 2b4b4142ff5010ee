// Decodes the types with payloads from messages whose items or placed results have arbitrary places and lengths.
#include <algorithm>

#include "protocol/nfs3.h"
#include "xdr_types.h"

namespace {

// Takes numbers from the front of the input.
class Input {
 public:
  Input(const uint8_t* data, size_t size) : data_(data), size_(size) {}

  uint8_t Octet() {
    if (size_ == 0) return 0;
    --size_;
    return *data_++;
  }
  penstock::Slice Some(size_t count) {
    count = std::min(count, size_);
    const auto slice = penstock::Slice::Borrowed(std::as_bytes(std::span(data_, count)));
    data_ += count;
    size_ -= count;
    return slice;
  }
  size_t size() const { return size_; }

 private:
  const uint8_t* data_;
  size_t size_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace penstock;  // NOLINT: a program of its own
  Input input(data, size);
  const uint8_t type = input.Octet();
  xdr::Message message;
  const uint8_t count = input.Octet() % 4;
  const bool placed = input.Octet() % 2 == 1;
  size_t offset = 0;
  for (uint8_t i = 0; i < count; ++i) {
    offset += input.Octet();
    Slice payload = input.Some(input.Octet());
    if (!placed) {
      message.items.push_back({offset, Data(std::move(payload))});
    } else if (offset % 3 == 0) {
      message.placed.emplace_back(std::nullopt);
    } else {
      message.placed.emplace_back(std::move(payload));
    }
  }
  message.stream = input.Some(input.size());
  switch (type % 4) {
    case 0:
      fuzz::CheckType<nfs3::WRITE3args>(message);
      break;
    case 1:
      fuzz::CheckType<nfs3::SYMLINK3args>(message);
      break;
    case 2:
      fuzz::CheckType<nfs3::READ3res>(message);
      break;
    default:
      fuzz::CheckType<nfs3::READLINK3res>(message);
      break;
  }
  return 0;
}
