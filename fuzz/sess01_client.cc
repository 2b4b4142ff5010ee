// Sends messages from a server of the sessions of 2004 to its client: CB_COMPOUNDs over several back channels, one
// after the other, and results of SESSION_CREATE and SESSION_BIND. Each call must get one reply that can be decoded. A
// callback that is repeated must get the same reply, and the client must not execute it again. The limits that the
// client accepts must be usable.
//
// Input: an octet for the kind of message. Then results as octets, or a sequence of calls. Each call has its channel,
// streamid, flag and XID, and the number of operations; each operation has its number, the length of its arguments, and
// the arguments.
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <vector>

#include "callback_reply.h"
#include "client/nfs4/sess01/callbacks.h"
#include "client/nfs4/sess01/link.h"
#include "input.h"
#include "rpc/dispatch.h"
#include "xdr/decode.h"
#include "xdr/encode.h"

namespace {

using namespace penstock;  // NOLINT: a program of its own
using namespace penstock::client::v4;
using fuzz::Die;
using fuzz::Input;
using nfs4::nfs_cb_opnum4;
using nfs4::nfsstat4;

constexpr uint32_t kStreams = 3;

// A client with a delegation of one file, "f", and a connection that may carry its back channel.
struct Receiver final : sess01::BackConnection, sess01::BoundReceiver, CallbackReceiver {
  Task<void> AwaitBinding() override { co_return; }
  std::optional<uint32_t> back_channel() const override { return channel; }

  sess01::CallbackTable& callbacks() override { return table; }
  Signal& callbacks_changed() override { return changed; }
  Task<nfsstat4> RecallCredits(uint32_t target) override {
    if (target == 0) Die("a recall of all credits");
    ++done;
    co_return nfsstat4::NFS4_OK;
  }

  nfs4::sessionid4 session() const override { return {}; }
  bool IsUnderWay(SlotUse) const override { return false; }
  void HandleSlotTarget(uint32_t) override { Die("an operation of RFC 8881"); }
  nfsstat4 HandleRecall(const nfs4::CB_RECALL4args& recall) override {
    ++done;
    return recall.fh == file ? nfsstat4::NFS4_OK : nfsstat4::NFS4ERR_BAD_STATEID;
  }
  void HandleRecallAny(const nfs4::CB_RECALL_ANY4args&) override { Die("an operation of RFC 8881"); }
  DelegationTable::Pointer DelegationOf(const client::Handle& asked) override {
    ++done;
    return asked == file ? delegation : nullptr;
  }
  void HandleLockAvailable(const client::Handle&) override { Die("an operation of RFC 8881"); }

  std::optional<uint32_t> channel;
  sess01::CallbackTable table;
  Signal changed;
  const client::Handle file{AsBytes(std::string_view("f"))};
  const DelegationTable::Pointer delegation =
      std::make_shared<Delegation>(file, nfs4::stateid4(), true, 1, client::Access::kBoth);
  uint32_t done = 0;
};

class Server {
 public:
  Server() {
    dispatcher_.Add(program_);
    peer_.buffers = &pool_;
    Bind();
  }

  void Step(Input& input) {
    const uint8_t how = input.Octet();
    if (how < 8) return Bind();
    if (how < 12) return Lose();
    if (how < 16) return Forget();
    Call(input);
  }

 private:
  struct Answer {
    bool counts = false;  // OPERATION_CONTROL succeeded, so the client keeps the reply
    std::vector<std::byte> reply;
  };

  void Bind() {
    receiver_.channel = ++last_channel_;
    receiver_.table.HandleBound(last_channel_, kStreams);
  }
  void Lose() { receiver_.channel.reset(); }
  void Forget() {
    receiver_.table.Clear();
    Bind();
  }

  void Call(Input& input) {
    const uint8_t which = input.Octet();
    const uint32_t channel = last_channel_ - which % 3;
    const uint32_t stream = which / 3 % (kStreams + 1);
    const uint8_t wrong = input.Octet();
    const uint32_t count = 1 + input.Octet() % 6;
    xdr::Encoder encoder(pool_);
    rpc::EncodeCallHeader(encoder, {rpc::Xid(++xid_), nfs4::NFS4_CALLBACK, 1, 1, {}, {}});
    xdr::Encode(encoder, nfs4::CB_COMPOUND4args_head{"fuzz", wrong == 1 ? 0u : 1u, 0, count});
    if (wrong != 2) encoder.U32(static_cast<uint32_t>(nfs_cb_opnum4::OP_CB_OPERATION_CONTROL));
    encoder.U32(channel);
    encoder.U32(stream);
    encoder.U32(wrong < 240 ? 0 : wrong - 240);  // the flag, also one that there is not
    for (uint32_t i = 1; i < count; ++i) {
      constexpr std::array kOperations = {nfs_cb_opnum4::OP_CB_CREDITRECALL, nfs_cb_opnum4::OP_CB_RECALL,
                                          nfs_cb_opnum4::OP_CB_GETATTR, nfs_cb_opnum4::OP_CB_OPERATION_CONTROL};
      const uint8_t operation = input.Octet();
      encoder.U32(operation < 160 ? static_cast<uint32_t>(kOperations[operation % kOperations.size()])
                                  : operation % 20);
      const ConstBytes arguments = input.Take(size_t{4} * (input.Octet() % 16));
      encoder.Fixed(arguments.first(arguments.size() / 4 * 4));
    }
    const rpc::Message call = encoder.Finish();
    const uint32_t before = receiver_.done;
    const Answer answer = Execute(call);
    if (receiver_.done - before >= count) Die("the client executed more than requested");
    if (!answer.counts && receiver_.done != before) Die("the client executed what it refused");
    if (!answer.counts) return;
    if (wrong > 240) Die("a callback in a chain was executed");
    Repeat(call, answer.reply);
    // The next back channel: the server has lost the one of the call.
    if (wrong % 8 == 7) {
      Bind();
      Repeat(call, answer.reply);
    }
  }

  Answer Execute(const rpc::Message& call) {
    const rpc::Message reply = fuzz::Ask(dispatcher_, call, peer_);
    xdr::Decoder decoder(reply);
    if (!fuzz::DecodeHead(decoder)) return {};
    nfs_cb_opnum4 operation{};
    if (!xdr::Decode(decoder, operation)) Die("a result without a number");
    if (operation != nfs_cb_opnum4::OP_CB_OPERATION_CONTROL) return {};
    nfs4::OPERATIONCONTROL4res result;
    if (!xdr::Decode(decoder, result)) {
      // CONTROL_POS, where OPERATION_CONTROL is only the name of what was first.
      return {};
    }
    const auto octets = reply.stream.bytes();
    return {result.status() == nfsstat4::NFS4_OK, {octets.begin(), octets.end()}};
  }

  void Repeat(const rpc::Message& call, const std::vector<std::byte>& reply) {
    const uint32_t before = receiver_.done;
    if (Execute(call).reply != reply) Die("the repetition has another reply");
    if (receiver_.done != before) Die("the repetition was executed");
  }

  BufferPool pool_;
  Receiver receiver_;
  sess01::CallbackProgram program_{receiver_, receiver_, receiver_};
  rpc::Dispatcher dispatcher_;
  rpc::Peer peer_;
  uint32_t xid_ = 0;
  uint32_t last_channel_ = 0;
};

void ReadBind(Input& input) {
  const uint8_t how = input.Octet();
  const nfs4::SESSIONBIND4args asked{.sessionid = 1,
                                     .channel = (how & 1) != 0 ? nfs4::BACK : nfs4::OPERATION,
                                     .mode = (how & 2) != 0 ? nfs4::RDMA : nfs4::STREAM,
                                     .maxrequestsize = 8192,
                                     .maxresponsesize = 8192,
                                     .headerpadsize = (how & 4) != 0 ? 256u : 0u,
                                     .maxrequests = 16,
                                     .maxrdmareads = 16,
                                     .transportattrs = {}};
  const ConstBytes octets = input.Take(4096);
  const xdr::Message message = xdr::Message::Whole(Slice::Borrowed(octets));
  const auto result = xdr::DecodeWhole<nfs4::SESSIONBIND4res>(message);
  if (!result) return;
  const auto bound = sess01::BoundOf(*result, asked);
  if (!bound && bound.error().empty()) Die("refused without a word");
  if (!bound || bound->status != nfsstat4::NFS4_OK) return;
  const rpc::ConnectionLimits& limits = bound->limits;
  if (limits.credits == 0 || limits.credits > asked.maxrequests) Die("impossible credits");
  if (limits.max_request > asked.maxrequestsize || limits.max_response > asked.maxresponsesize) Die("sizes too large");
  if (limits.max_request == 0 || limits.max_response == 0) Die("no size");
  if (limits.padding > asked.headerpadsize || limits.reads > asked.maxrdmareads) Die("more than was asked for");
  if (bound->mode == nfs4::RDMA && asked.mode != nfs4::RDMA) Die("a mode that was not asked for");
}

void ReadCreate(Input& input) {
  const xdr::Message message = xdr::Message::Whole(Slice::Borrowed(input.Take(64)));
  (void)xdr::DecodeWhole<nfs4::SESSIONCREATE4res>(message);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Input input(data, size);
  switch (input.Octet() % 4) {
    case 0:
      ReadBind(input);
      break;
    case 1:
      ReadCreate(input);
      break;
    default:
      Server server;
      while (!input.empty()) server.Step(input);
  }
  return 0;
}
