// A client for tests of callbacks. It decodes calls, and answers them as the test says.
#pragma once

#include <deque>
#include <functional>
#include <optional>
#include <vector>

#include "nfs/v4/callback/wire.h"
#include "rpc/header.h"
#include "xdr/decode.h"

namespace penstock::nfs::v4 {

// The file of the calls.
inline const FileHandle kFile{ExportId(7), *fs::Handle::FromBytes(AsBytes("file"))};

// A call that the client has received.
struct ReceivedCallback {
  rpc::CallHeader header;
  nfs4::CB_COMPOUND4args_head head{};
  std::optional<nfs4::CB_SEQUENCE4args> sequence{};
  std::optional<nfs4::OPERATIONCONTROL4args> control{};
  nfs4::nfs_cb_opnum4 operation{};  // zero for CB_NULL
  nfs4::CB_RECALL4args recall{};
  nfs4::CB_RECALL_ANY4args recall_any{};
  nfs4::CB_GETATTR4args get_attributes{};
  nfs4::CB_RECALL_SLOT4args recall_slot{};
  nfs4::CB_CREDITRECALLargs recall_credits{};
};

inline ReceivedCallback Receive(const rpc::Message& call) {
  ReceivedCallback received;
  xdr::Decoder decoder(call);
  EXPECT_EQ(rpc::DecodeCallHeader(decoder, received.header), rpc::HeaderProblem::kNone);
  if (received.header.procedure == nfs4::CB_NULL::kNumber) {
    EXPECT_TRUE(decoder.Finish());
    return received;
  }
  EXPECT_TRUE(xdr::Decode(decoder, received.head));
  for (uint32_t i = 0; i < received.head.count; ++i) {
    EXPECT_TRUE(xdr::Decode(decoder, received.operation));
    if (received.operation == nfs4::OP_CB_SEQUENCE) {
      EXPECT_TRUE(xdr::Decode(decoder, received.sequence.emplace()));
    } else if (received.operation == nfs4::OP_CB_OPERATION_CONTROL) {
      EXPECT_TRUE(xdr::Decode(decoder, received.control.emplace()));
    } else if (received.operation == nfs4::OP_CB_RECALL) {
      EXPECT_TRUE(xdr::Decode(decoder, received.recall));
    } else if (received.operation == nfs4::OP_CB_RECALL_ANY) {
      EXPECT_TRUE(xdr::Decode(decoder, received.recall_any));
    } else if (received.operation == nfs4::OP_CB_GETATTR) {
      EXPECT_TRUE(xdr::Decode(decoder, received.get_attributes));
    } else if (received.operation == nfs4::OP_CB_RECALL_SLOT) {
      EXPECT_TRUE(xdr::Decode(decoder, received.recall_slot));
    } else if (received.operation == nfs4::OP_CB_CREDITRECALL) {
      EXPECT_TRUE(xdr::Decode(decoder, received.recall_credits));
    }
  }
  return received;
}

// The reply of the client.
struct CallbackReply {
  rpc::AcceptStatus accepted = rpc::AcceptStatus::SUCCESS;
  nfs4::nfsstat4 sequence = nfs4::NFS4_OK;  // of CB_SEQUENCE or OPERATION_CONTROL
  nfs4::nfsstat4 status = nfs4::NFS4_OK;
  std::optional<nfs4::fattr4> attributes{};  // the result of CB_GETATTR
};

inline rpc::Message ReplyTo(BufferPool& buffers, const ReceivedCallback& call, const CallbackReply& reply) {
  xdr::Encoder encoder(buffers);
  rpc::EncodeAccepted(encoder, call.header.xid, reply.accepted);
  if (reply.accepted != rpc::AcceptStatus::SUCCESS) return encoder.Finish();
  if (call.header.procedure == nfs4::CB_NULL::kNumber) return encoder.Finish();
  const bool refused = reply.sequence != nfs4::NFS4_OK;
  const uint32_t count = (call.sequence || call.control) && !refused ? 2 : 1;
  xdr::Encode(encoder,
              nfs4::CB_COMPOUND4res_head{.status = refused ? reply.sequence : reply.status, .tag = {}, .count = count});
  if (call.sequence) {
    xdr::Encode(encoder, nfs4::OP_CB_SEQUENCE);
    xdr::Encode(encoder, reply.sequence);
    if (refused) return encoder.Finish();
    xdr::Encode(encoder, nfs4::CB_SEQUENCE4resok{.csr_sessionid = call.sequence->csa_sessionid,
                                                 .csr_sequenceid = call.sequence->csa_sequenceid,
                                                 .csr_slotid = call.sequence->csa_slotid,
                                                 .csr_highest_slotid = 0,
                                                 .csr_target_highest_slotid = 0});
  }
  if (call.control) {
    xdr::Encode(encoder, nfs4::OP_CB_OPERATION_CONTROL);
    xdr::Encode(encoder, refused ? nfs4::OPERATIONCONTROL4res(reply.sequence)
                                 : nfs4::OPERATIONCONTROL4res(nfs4::NFS4_OK, call.control->streamid));
    if (refused) return encoder.Finish();
  }
  xdr::Encode(encoder, call.operation);
  xdr::Encode(encoder, reply.status);
  if (reply.attributes) xdr::Encode(encoder, *reply.attributes);
  return encoder.Finish();
}

}  // namespace penstock::nfs::v4
