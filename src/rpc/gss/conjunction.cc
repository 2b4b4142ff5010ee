#include "rpc/gss/conjunction.h"

#include <array>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

#include "base/address.h"
#include "protocol/ccm.h"
#include "rpc/auth.h"
#include "xdr/decode.h"
#include "xdr/encode.h"

namespace penstock::rpc::gss {
namespace {

constexpr std::byte kTokenTag{0x60};  // [APPLICATION 0], constructed
constexpr std::byte kOidTag{0x06};

using Label = std::array<std::byte, ccm::CCM_LABEL_SIZE>;

Label LabelOf(std::string_view text) {
  Label label{};
  CopyBytes(label, AsBytes(text));
  return label;
}

std::unexpected<Failure> Defective(std::string text) {
  return std::unexpected(Failure{.major = kDefectiveToken, .text = std::move(text)});
}

// Removes one DER element with this tag from the front of `rest`, and returns its contents. Accepts lengths of at most
// 16 bits, in their shortest form.
std::optional<ConstBytes> TakeElement(ConstBytes& rest, std::byte tag) {
  if (rest.size() < 2 || rest[0] != tag) return std::nullopt;
  size_t length = std::to_integer<size_t>(rest[1]);
  rest = rest.subspan(2);
  if (length >= 0x80) {
    const size_t octets = length - 0x80;
    if (octets < 1 || octets > 2 || rest.size() < octets) return std::nullopt;
    length = octets == 1 ? std::to_integer<size_t>(rest[0]) : LoadBig<uint16_t>(rest.data());
    if (length < (octets == 1 ? 0x80u : 0x100u)) return std::nullopt;
    rest = rest.subspan(octets);
  }
  if (rest.size() < length) return std::nullopt;
  const ConstBytes contents = rest.first(length);
  rest = rest.subspan(length);
  return contents;
}

std::optional<IpAddress> AddressOf(ConstBytes octets) {
  if (octets.size() == 4) {
    asio::ip::address_v4::bytes_type bytes;
    std::memcpy(bytes.data(), octets.data(), bytes.size());
    return asio::ip::address_v4(bytes);
  }
  if (octets.size() != 16) return std::nullopt;
  asio::ip::address_v6::bytes_type bytes;
  std::memcpy(bytes.data(), octets.data(), bytes.size());
  return asio::ip::address_v6(bytes);
}

template <class T>
std::optional<T> Decoded(ConstBytes octets) {
  const xdr::Message message = xdr::Message::Whole(Slice::Borrowed(octets));
  auto decoded = xdr::DecodeWhole<T>(message);
  if (!decoded) return std::nullopt;
  return *std::move(decoded);
}

}  // namespace

std::optional<ConstBytes> BodyOfConjunction(ConstBytes token) {
  const auto framed = TakeElement(token, kTokenTag);
  if (!framed || !token.empty()) return std::nullopt;
  ConstBytes body = *framed;
  const auto oid = TakeElement(body, kOidTag);
  if (!oid || !Equal(*oid, OidOf(GssMechanism::kConjunction))) return std::nullopt;
  return body;
}

Result<ConjunctionToken> ParseConjunction(ConstBytes body) {
  const auto token = Decoded<ccm::ccm_token>(body);
  if (!token) return Defective("the CCM token is malformed");
  const auto claim = Decoded<ccm::ccm_claim>(token->claim.bytes());
  if (!claim || claim->label != LabelOf("CCMtoken")) return Defective("the claim of the CCM token is malformed");
  if (claim->version != ccm::CCM_VERSION) return Defective("the CCM token has an unknown version");
  const auto client = AddressOf(claim->client.bytes());
  const auto server = AddressOf(claim->server.bytes());
  if (!client || !server) return Defective("an address in the CCM token has a wrong length");
  return ConjunctionToken{.cookie = claim->cookie.bytes(),
                          .number = claim->number,
                          .hosts = HostPair(*client, *server),
                          .claim = token->claim.bytes(),
                          .mic = token->mic.bytes()};
}

xdr::Message ConjunctionConfirmation(BufferPool& pool, const Handle& handle, ConstBytes claim) {
  xdr::Encoder encoder(pool);
  xdr::Encode(encoder,
              ccm::ccm_confirmation{.label = LabelOf("CCMreply"), .handle = ConstBytes(handle), .claim = claim});
  return encoder.Finish();
}

Result<void> ChannelProtection::VerifyMic(ConstBytes, ConstBytes mic) {
  if (mic.empty()) return {};
  return std::unexpected(Failure{.major = kBadMic, .text = "a checksum under CCM is not empty"});
}

Result<void> ChannelProtection::GetMic(ConstBytes, Mic& mic) {
  mic.size = 0;
  return {};
}

}  // namespace penstock::rpc::gss
