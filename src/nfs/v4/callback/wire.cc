#include "nfs/v4/callback/wire.h"

#include "nfs/v4/attributes/attribute_set.h"
#include "rpc/header.h"
#include "xdr/decode.h"

namespace penstock::nfs::v4 {

using namespace nfs4;  // NOLINT: the protocol's own names, RFC 8881

namespace {

// RFC 8881 §18.36.3 mentions version 4, but the definition of the program (RFC 5662 §1, RFC 7531 §2) has only version
// 1, and clients listen for version 1.
constexpr uint32_t kVersion = NFS_CB;
constexpr size_t kLargestReply = 512;
constexpr AttributeSet kVersionAttributes{FATTR4_CHANGE, FATTR4_SIZE};
constexpr AttributeSet kTimes{FATTR4_TIME_DELEG_ACCESS, FATTR4_TIME_DELEG_MODIFY};

AttributeSet Asked(bool with_times) { return with_times ? kVersionAttributes | kTimes : kVersionAttributes; }

bool DecodeTime(xdr::Decoder& decoder, std::optional<fs::Timestamp>& to) {
  constexpr uint32_t kNanosecondsPerSecond = 1'000'000'000;
  nfstime4 time{};
  if (!xdr::Decode(decoder, time) || time.nseconds >= kNanosecondsPerSecond) return false;
  to = fs::Timestamp{time.seconds, time.nseconds};
  return true;
}

bool DecodeAttributes(xdr::Decoder& decoder, const AttributeSet& asked, HolderAttributes& attributes) {
  CB_GETATTR4resok result{};
  if (!xdr::Decode(decoder, result)) return false;
  const AttributeSet set(result.obj_attributes.attrmask);
  if (!asked.Contains(set)) return false;
  const xdr::Message octets = xdr::Message::Whole(Slice::Borrowed(result.obj_attributes.attr_vals.bytes()));
  xdr::Decoder values(octets);
  // In ascending order (RFC 8881 §5): change is 3, size 4, time_deleg_access 84, time_deleg_modify 85.
  uint64_t value = 0;
  if (set.Has(FATTR4_CHANGE)) {
    if (!values.U64(value)) return false;
    attributes.change = value;
  }
  if (set.Has(FATTR4_SIZE)) {
    if (!values.U64(value)) return false;
    attributes.size = value;
  }
  if (set.Has(FATTR4_TIME_DELEG_ACCESS) && !DecodeTime(values, attributes.times.access)) return false;
  if (set.Has(FATTR4_TIME_DELEG_MODIFY) && !DecodeTime(values, attributes.times.modify)) return false;
  return values.Finish();
}

// Decodes the number and status of the next result, which must be a result of `number` or of OP_CB_ILLEGAL.
bool DecodeStatus(xdr::Decoder& decoder, nfs_cb_opnum4 number, nfsstat4& status) {
  nfs_cb_opnum4 found{};
  return xdr::Decode(decoder, found) && xdr::Decode(decoder, status) &&
         (found == number || (found == OP_CB_ILLEGAL && status == NFS4ERR_OP_ILLEGAL));
}

// Decodes the result of CB_SEQUENCE, which must repeat the session, sequence number and slot of the call (RFC 8881
// §20.9.3).
bool DecodeSequence(xdr::Decoder& decoder, const CB_SEQUENCE4args& sent, nfsstat4& status) {
  if (!DecodeStatus(decoder, OP_CB_SEQUENCE, status)) return false;
  if (status != NFS4_OK) return true;
  CB_SEQUENCE4resok result{};
  return xdr::Decode(decoder, result) && result.csr_sessionid == sent.csa_sessionid &&
         result.csr_sequenceid == sent.csa_sequenceid && result.csr_slotid == sent.csa_slotid;
}

// Decodes the result of OPERATION_CONTROL, which must repeat the streamid of the call.
bool DecodeControl(xdr::Decoder& decoder, const OPERATIONCONTROL4args& sent, nfsstat4& status) {
  if (!DecodeStatus(decoder, OP_CB_OPERATION_CONTROL, status)) return false;
  uint32_t streamid = 0;
  return status != NFS4_OK || (decoder.U32(streamid) && streamid == sent.streamid);
}

bool DecodeResults(xdr::Decoder& decoder, const CallbackCall& call, CallbackAnswer& answer) {
  CB_COMPOUND4res_head head{};
  if (!xdr::Decode(decoder, head)) return false;
  answer.status = head.status;
  uint32_t left = head.count;
  if (call.sequence || call.control) {
    if (left == 0) {
      // The client did not execute the opener (NFS4ERR_MINOR_VERS_MISMATCH). The status must be an error.
      answer.opener = head.status;
      return head.status != NFS4_OK;
    }
    --left;
    const bool decoded = call.sequence ? DecodeSequence(decoder, *call.sequence, answer.opener)
                                       : DecodeControl(decoder, *call.control, answer.opener);
    if (!decoded) return false;
    if (answer.opener != NFS4_OK) return left == 0;
  }
  if (left == 0) return head.status != NFS4_OK;
  if (!DecodeStatus(decoder, call.operation->number, answer.status)) return false;
  if (call.operation->number == OP_CB_GETATTR && answer.status == NFS4_OK) {
    return DecodeAttributes(decoder, Asked(call.operation->with_times), answer.attributes);
  }
  return true;
}

}  // namespace

CallbackOperation MakeGetAttributes(const FileHandle& file, bool with_times) {
  const CB_GETATTR4args arguments{.fh = nfs_fh4(EncodedHandle(file).bytes()),
                                  .attr_request = Asked(with_times).ToBitmap()};
  CallbackOperation operation = CallbackOperation::Of(OP_CB_GETATTR, arguments);
  operation.with_times = with_times;
  return operation;
}

rpc::Message EncodeCallback(BufferPool& buffers, rpc::Xid xid, const CallbackCall& call) {
  xdr::Encoder encoder(buffers);
  const auto procedure = call.operation ? CB_COMPOUND::kNumber : CB_NULL::kNumber;
  rpc::EncodeCallHeader(encoder, {xid, call.program, kVersion, procedure, call.credential, {}});
  if (!call.operation) return encoder.Finish();
  xdr::Encode(encoder, CB_COMPOUND4args_head{.tag = {},
                                             .minorversion = call.minor_version.value(),
                                             .callback_ident = call.identifier,
                                             .count = call.sequence || call.control ? 2u : 1u});
  if (call.sequence) {
    xdr::Encode(encoder, OP_CB_SEQUENCE);
    xdr::Encode(encoder, *call.sequence);
  }
  if (call.control) {
    xdr::Encode(encoder, OP_CB_OPERATION_CONTROL);
    xdr::Encode(encoder, *call.control);
  }
  xdr::Encode(encoder, call.operation->number);
  encoder.Fixed(call.operation->arguments);
  return encoder.Finish();
}

rpc::ReplyShape ShapeOfCallbackReply() {
  rpc::ReplyShape shape;
  shape.max_stream = kLargestReply;
  return shape;
}

Result<CallbackAnswer, CallbackProblem> DecodeCallbackReply(const rpc::Message& reply, rpc::Xid xid,
                                                            const CallbackCall& call) {
  xdr::Decoder decoder(reply);
  rpc::ReplyHeader header;
  if (!rpc::DecodeReplyHeader(decoder, header) || header.xid != xid)
    return std::unexpected(CallbackProblem::kMalformed);
  if (!header.body.is_areply()) return std::unexpected(CallbackProblem::kRefused);
  const rpc::AcceptStatus status = header.body.areply().reply_data.discriminant();
  // RFC 5531 §9: a client may have executed part of the call before it failed.
  if (status == rpc::AcceptStatus::SYSTEM_ERR) return std::unexpected(CallbackProblem::kMalformed);
  if (status != rpc::AcceptStatus::SUCCESS) return std::unexpected(CallbackProblem::kRefused);
  CallbackAnswer answer;
  if (call.operation && !DecodeResults(decoder, call, answer)) return std::unexpected(CallbackProblem::kMalformed);
  return answer;
}

}  // namespace penstock::nfs::v4
