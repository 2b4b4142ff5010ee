// Decodes the input as the reply of a client to a callback of the server. The first octet chooses the callback. Unless
// it says otherwise, the reply begins with a well-formed head, so that most inputs reach the results.
#include <algorithm>
#include <array>

#include "base/buffer.h"
#include "input.h"
#include "nfs/v4/callback/wire.h"
#include "rpc/header.h"
#include "xdr/encode.h"

namespace {

using namespace penstock;  // NOLINT: a program of its own
using namespace nfs4;      // NOLINT: the protocol's own names, RFC 8881
using nfs::v4::CallbackOperation;

constexpr rpc::Xid kXid{7};

void EncodeHead(xdr::Encoder& encoder, const nfs::v4::CallbackCall& call) {
  rpc::EncodeAccepted(encoder, kXid, rpc::AcceptStatus::SUCCESS);
  if (!call.operation) return;
  xdr::Encode(encoder, CB_COMPOUND4res_head{.status = NFS4_OK, .tag = {}, .count = call.sequence ? 2u : 1u});
  if (call.sequence) {
    xdr::Encode(encoder, OP_CB_SEQUENCE);
    xdr::Encode(encoder, NFS4_OK);
    xdr::Encode(encoder, CB_SEQUENCE4resok{.csr_sessionid = {},
                                           .csr_sequenceid = 0,
                                           .csr_slotid = 0,
                                           .csr_highest_slotid = 0,
                                           .csr_target_highest_slotid = 0});
  }
  xdr::Encode(encoder, call.operation->number);
  xdr::Encode(encoder, NFS4_OK);
}

void Check(const nfs::v4::CallbackAnswer& answer, const nfs::v4::CallbackCall& call) {
  const auto& [access, modify] = answer.attributes.times;
  for (const auto& time : {access, modify}) {
    if (time && time->nanoseconds >= 1'000'000'000) fuzz::Die("a time with too many nanoseconds");
  }
  if ((access || modify) && !call.operation->with_times) fuzz::Die("times that the server did not ask for");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static BufferPool pool;
  fuzz::Input input(data, size);
  const uint8_t kind = input.Octet();
  const nfs::FileHandle file{nfs::ExportId(7), *fs::Handle::FromBytes(AsBytes("file"))};
  const std::array operations{nfs::v4::MakeGetAttributes(file, false), nfs::v4::MakeGetAttributes(file, true),
                              CallbackOperation::Of(OP_CB_RECALL, CB_RECALL4args{})};
  nfs::v4::CallbackCall call;
  if (const size_t which = kind % 4; which < operations.size()) call.operation = &operations[which];
  if (call.operation && (kind & 4) != 0) call.sequence.emplace();
  if (call.operation && (kind & 8) != 0 && !call.sequence) call.control.emplace();

  xdr::Encoder encoder(pool);
  if ((kind & 16) == 0 && !call.control) EncodeHead(encoder, call);
  encoder.Fixed(input.Take(size));
  const auto answer = nfs::v4::DecodeCallbackReply(encoder.Finish(), kXid, call);
  if (answer) Check(*answer, call);
  return 0;
}
