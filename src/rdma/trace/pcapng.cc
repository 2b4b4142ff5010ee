#include "rdma/trace/pcapng.h"

#include <cstring>

namespace penstock::rdma::trace {
namespace {

// §4: the types of blocks, and the options that we use.
constexpr uint32_t kSectionHeader = 0x0a0d0d0a;
constexpr uint32_t kInterfaceDescription = 1;
constexpr uint32_t kInterfaceStatistics = 5;
constexpr uint32_t kEnhancedPacket = 6;

constexpr uint16_t kEndOfOptions = 0;
constexpr uint16_t kComment = 1;
constexpr uint16_t kUserApplication = 4;  // section header
constexpr uint16_t kName = 2;             // interface description
constexpr uint16_t kTimeResolution = 9;
constexpr uint16_t kDropCount = 4;  // enhanced packet
constexpr uint16_t kReceived = 4;   // interface statistics
constexpr uint16_t kDropped = 5;

constexpr uint16_t kLinkTypeEthernet = 1;
constexpr size_t kMostComment = 0xfffc;

class Block {
 public:
  Block(std::vector<std::byte>& out, uint32_t type) : out_(out), begin_(out.size()) {
    Put(type);
    Put(uint32_t{0});
  }
  // Completes the block: writes its size at its beginning and at its end.
  ~Block() {
    const auto size = static_cast<uint32_t>(out_.size() - begin_ + 4);
    std::memcpy(&out_[begin_ + 4], &size, sizeof size);
    Put(size);
  }
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  template <class T>
  void Put(T value) {
    const auto bytes = std::as_bytes(std::span(&value, 1));
    out_.insert(out_.end(), bytes.begin(), bytes.end());
  }
  // Appends a time. Its high word comes first in both byte orders.
  void PutStamp(uint64_t stamp) {
    Put(static_cast<uint32_t>(stamp >> 32));
    Put(static_cast<uint32_t>(stamp));
  }
  void PutPadded(ConstBytes bytes) {
    out_.insert(out_.end(), bytes.begin(), bytes.end());
    out_.resize(out_.size() + RoundUp(bytes.size(), 4) - bytes.size());
  }
  void PutOption(uint16_t code, ConstBytes value) {
    Put(code);
    Put(static_cast<uint16_t>(value.size()));
    PutPadded(value);
  }
  void PutOption(uint16_t code, std::string_view value) { PutOption(code, AsBytes(value.substr(0, kMostComment))); }
  void PutOption(uint16_t code, uint64_t value) { PutOption(code, std::as_bytes(std::span(&value, 1))); }
  void EndOptions() { PutOption(kEndOfOptions, ConstBytes{}); }

 private:
  std::vector<std::byte>& out_;
  const size_t begin_;
};

}  // namespace

void AppendSectionHeader(std::vector<std::byte>& out, std::string_view application) {
  Block block(out, kSectionHeader);
  block.Put(uint32_t{0x1a2b3c4d});  // tells the byte order
  block.Put(uint16_t{1});           // version 1.0
  block.Put(uint16_t{0});
  block.Put(uint64_t{0} - 1);  // the size of the section is not given
  block.PutOption(kUserApplication, application);
  block.EndOptions();
}

void AppendInterface(std::vector<std::byte>& out, std::string_view name, std::string_view comment) {
  Block block(out, kInterfaceDescription);
  block.Put(kLinkTypeEthernet);
  block.Put(uint16_t{0});
  block.Put(uint32_t{0});  // packets are never truncated
  block.PutOption(kComment, comment);
  block.PutOption(kName, name);
  constexpr std::byte kNanoseconds{9};
  block.PutOption(kTimeResolution, std::span(&kNanoseconds, 1));
  block.EndOptions();
}

void AppendPacket(std::vector<std::byte>& out, uint64_t stamp, ConstBytes packet, std::string_view comment,
                  uint64_t lost) {
  Block block(out, kEnhancedPacket);
  block.Put(uint32_t{0});  // the interface
  block.PutStamp(stamp);
  block.Put(static_cast<uint32_t>(packet.size()));
  block.Put(static_cast<uint32_t>(packet.size()));
  block.PutPadded(packet);
  if (!comment.empty()) block.PutOption(kComment, comment);
  if (lost > 0) block.PutOption(kDropCount, lost);
  if (!comment.empty() || lost > 0) block.EndOptions();
}

size_t PacketBlockBound(ConstBytes packet, std::string_view comment) {
  constexpr size_t kFixed = 32, kOptions = 4 + 12 + 4, kPads = 6;
  return kFixed + packet.size() + kOptions + comment.size() + kPads;
}

void AppendStatistics(std::vector<std::byte>& out, uint64_t stamp, uint64_t received, uint64_t lost) {
  Block block(out, kInterfaceStatistics);
  block.Put(uint32_t{0});  // the interface
  block.PutStamp(stamp);
  block.PutOption(kReceived, received);
  block.PutOption(kDropped, lost);
  block.EndOptions();
}

}  // namespace penstock::rdma::trace
