// For tests and fuzzers: the client's side of CCM, over the client's side of any other mechanism.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "base/address.h"
#include "base/buffer.h"
#include "protocol/ccm.h"
#include "rpc/auth.h"
#include "rpc/gss/test_initiator.h"
#include "xdr/encode.h"

namespace penstock::rpc::gss::testing {

inline Octets OctetsOf(const IpAddress& address) {
  const auto copied = [](const auto& bytes) { return Copied(std::as_bytes(std::span(bytes))); };
  return address.is_v4() ? copied(address.to_v4().to_bytes()) : copied(address.to_v6().to_bytes());
}

// What an initiator claims. Tests change it to make deliberate errors.
struct Claimed {
  Octets cookie;
  uint32_t number = 0;
  Octets client;                   // at most 16 octets
  Octets server;                   // at most 16 octets
  std::string label = "CCMtoken";  // eight octets
  uint32_t version = ccm::CCM_VERSION;

  Octets Encoded() const {
    ccm::ccm_claim claim{
        .version = version, .cookie = ConstBytes(cookie), .number = number, .client = {}, .server = {}};
    CopyBytes(claim.label, AsBytes(label));
    claim.client.Assign(client);
    claim.server.Assign(server);
    return OfXdr(claim);
  }
  template <class T>
  static Octets OfXdr(const T& value) {
    BufferPool pool;
    xdr::Encoder encoder(pool);
    xdr::Encode(encoder, value);
    return Copied(encoder.Finish().stream.bytes());
  }
};

// Returns the initial token of a mechanism (RFC 2743 §3.1). The lengths of its parts are below 2^16.
inline Octets Framed(ConstBytes oid, ConstBytes body) {
  Octets inner{std::byte{0x06}, static_cast<std::byte>(oid.size())};
  inner.insert(inner.end(), oid.begin(), oid.end());
  inner.insert(inner.end(), body.begin(), body.end());
  const size_t size = inner.size();
  Octets token{std::byte{0x60}};
  if (size >= 0x100) {
    token.insert(token.end(), {std::byte{0x82}, static_cast<std::byte>(size >> 8)});
  } else if (size >= 0x80) {
    token.push_back(std::byte{0x81});
  }
  token.push_back(static_cast<std::byte>(size));
  token.insert(token.end(), inner.begin(), inner.end());
  return token;
}

class ConjunctionInitiator : public InitiatorMechanism {
 public:
  // `inner` is the initiator's side of the context with the claimed cookie.
  ConjunctionInitiator(InitiatorMechanism& inner, Claimed claimed) : inner_(inner), claimed_(std::move(claimed)) {}

  // Returns true if the acceptor has confirmed the claim and the handle of the new context.
  bool IsConfirmed(const Octets& handle) {
    ccm::ccm_confirmation confirmation;
    CopyBytes(confirmation.label, AsBytes("CCMreply"));
    const Octets claim = claimed_.Encoded();
    confirmation.handle = ConstBytes(handle);
    confirmation.claim = ConstBytes(claim);
    return inner_.VerifyMic(Claimed::OfXdr(confirmation), answer_);
  }
  Octets Token() {
    const Octets claim = claimed_.Encoded();
    const Octets mic = inner_.GetMic(claim);
    return Framed(OidOf(GssMechanism::kConjunction),
                  Claimed::OfXdr(ccm::ccm_token{.claim = ConstBytes(claim), .mic = ConstBytes(mic)}));
  }

  std::optional<Octets> Step(ConstBytes token) override {
    if (token.empty()) return Token();
    answer_ = Copied(token);
    return Octets();
  }
  Octets GetMic(ConstBytes) override { return {}; }
  bool VerifyMic(ConstBytes, ConstBytes mic) override { return mic.empty(); }
  Octets Wrap(ConstBytes message) override { return Copied(message); }
  std::optional<Octets> Unwrap(ConstBytes message) override { return Copied(message); }

 private:
  InitiatorMechanism& inner_;
  const Claimed claimed_;
  Octets answer_;
};

}  // namespace penstock::rpc::gss::testing
