// The results of a COMPOUND, as they are written one after the other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "protocol/nfs4_types.h"
#include "xdr/encode.h"

namespace penstock::nfs::v4 {

// Writes the results of a COMPOUND. Finish() completes their head.
class Results {
 public:
  Results(xdr::Encoder& encoder, std::string_view tag) : encoder_(encoder), start_(encoder.mark()) {
    xdr::Encode(encoder_, nfs4::NFS4_OK);
    encoder_.String(tag);
    count_at_ = encoder_.reduced_size();
    encoder_.U32(0);
  }

  xdr::Encoder& encoder() { return encoder_; }
  // The octets of the reply so far, with the RPC header and with payloads.
  size_t size() const { return encoder_.size(); }
  const xdr::Items& payloads() const { return encoder_.payloads(); }
  bool has_payload() const { return encoder_.size() != encoder_.reduced_size(); }

  // Writes the number of the next operation. The operation's result follows.
  void Begin(nfs4::nfs_opnum4 number) {
    ++count_;
    encoder_.U32(static_cast<uint32_t>(number));
    result_ = encoder_.mark();
  }
  // Removes the result that was just written, so that another result can take its place.
  void Replace() { encoder_.Rewind(result_); }

  void Finish(nfs4::nfsstat4 status) {
    encoder_.PatchU32(start_.size, static_cast<uint32_t>(status));
    encoder_.PatchU32(count_at_, count_);
  }
  xdr::Message Copy() const { return encoder_.CopySince(start_); }
  // Replaces everything written so far by a kept reply.
  void ReplaceAll(const xdr::Message& kept) {
    encoder_.Rewind(start_);
    encoder_.Append(kept);
  }

 private:
  xdr::Encoder& encoder_;
  const xdr::Encoder::Mark start_;
  size_t count_at_ = 0;
  uint32_t count_ = 0;
  xdr::Encoder::Mark result_{};
};

}  // namespace penstock::nfs::v4
