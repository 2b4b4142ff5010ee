#include "rpcrdma/private_data.h"

#include <algorithm>
#include <cassert>

#include "rdma/provider.h"

namespace penstock::rpcrdma {
namespace {

constexpr uint32_t kFormatIdentifier = 0xf6ab0e18;
constexpr std::byte kFormatVersion{1};
constexpr std::byte kRemoteInvalidation{1};
constexpr size_t kSize = 8;
constexpr uint32_t kUnit = 1024;

uint32_t DecodeSize(std::byte size) { return (static_cast<uint32_t>(size) + 1) * kUnit; }

std::byte EncodeSize(uint32_t size) {
  assert(size >= kDefaultThreshold && size <= kMaxThreshold);
  return static_cast<std::byte>(size / kUnit - 1);
}

}  // namespace

PrivateData PrivateData::Parse(ConstBytes delivered) {
  for (size_t i = 0; i + kSize <= delivered.size(); ++i) {
    const std::byte* at = delivered.data() + i;
    // An identifier with another version may be part of another layer's data, so continue the search (RFC 8797 §5.2,
    // §7).
    if (LoadBig<uint32_t>(at) != kFormatIdentifier || at[4] != kFormatVersion) continue;
    return {(at[5] & kRemoteInvalidation) != std::byte{0}, DecodeSize(at[6]), DecodeSize(at[7])};
  }
  return {};
}

std::vector<std::byte> PrivateData::Serialize() const {
  std::vector<std::byte> out(kSize);
  StoreBig(out.data(), kFormatIdentifier);
  out[4] = kFormatVersion;
  out[5] = remote_invalidation ? kRemoteInvalidation : std::byte{0};
  out[6] = EncodeSize(send_size);
  out[7] = EncodeSize(receive_size);
  return out;
}

PrivateData PrivateData::ForInlineData(uint32_t data) {
  constexpr uint32_t kAround = 4096;
  assert(data <= rdma::kMostInlineData);
  const uint32_t size = data <= kUsualThreshold ? kUsualThreshold : data + kAround;
  return {.remote_invalidation = true, .send_size = size, .receive_size = size};
}

PrivateData ClientDataOf(const rpc::ConnectionLimits& limits) {
  return {.send_size = limits.max_request, .receive_size = limits.max_response};
}

PrivateData ServerDataOf(const rpc::ConnectionLimits& limits) {
  return {.send_size = limits.max_response, .receive_size = limits.max_request};
}

std::vector<std::byte> SerializeRejection(rpc::ConnectionTable::Refusal refusal) {
  const ConstBytes text = AsBytes(ToString(refusal));
  return {text.begin(), text.end()};
}

rpc::ConnectionTable::Refusal ParseRejection(ConstBytes delivered) {
  using enum rpc::ConnectionTable::Refusal;
  for (const auto refusal : {kServerFull, kAddressFull, kDraining}) {
    // InfiniBand pads the text with zeros.
    if (AsText(delivered).starts_with(ToString(refusal))) return refusal;
  }
  return kNone;
}

Thresholds Thresholds::Agree(const PrivateData& own, const PrivateData& peer, uint32_t max_message) {
  return {std::min({own.send_size, peer.receive_size, max_message}), std::min(own.receive_size, peer.send_size),
          own.remote_invalidation && peer.remote_invalidation};
}

}  // namespace penstock::rpcrdma
