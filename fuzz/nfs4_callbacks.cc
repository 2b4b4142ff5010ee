// Sends messages from an NFSv4.1 server to its client: CB_COMPOUNDs over the backchannel, and attributes. Each call
// must get one reply that can be decoded. A repeated call must get the same reply. The client must not execute more
// than requested.
//
// Input: a sequence of calls. Each has the slot, the error in its sequence, and the number of operations; each
// operation has its number, the length of its arguments, and the arguments.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <optional>

#include "callback_reply.h"
#include "client/nfs4/attributes.h"
#include "client/nfs4/callback.h"
#include "client/nfs4/locations.h"
#include "input.h"
#include "rpc/dispatch.h"
#include "xdr/decode.h"
#include "xdr/encode.h"

namespace {

using namespace penstock;  // NOLINT: a program of its own
using fuzz::Die;
using fuzz::Input;

constexpr uint32_t kSlots = 4;

// A client with a delegation of one file, "f".
struct Receiver final : client::v4::CallbackReceiver {
  nfs4::sessionid4 session() const override { return {}; }
  bool IsUnderWay(client::v4::SlotUse) const override { return false; }
  void HandleSlotTarget(uint32_t) override { ++done; }
  nfs4::nfsstat4 HandleRecall(const nfs4::CB_RECALL4args& recall) override {
    ++done;
    return recall.fh == file ? nfs4::nfsstat4::NFS4_OK : nfs4::nfsstat4::NFS4ERR_BAD_STATEID;
  }
  void HandleRecallAny(const nfs4::CB_RECALL_ANY4args&) override { ++done; }
  client::v4::DelegationTable::Pointer DelegationOf(const client::Handle& asked) override {
    ++done;
    return asked == file ? delegation : nullptr;
  }
  void HandleLockAvailable(const client::Handle&) override { ++done; }

  const client::Handle file{AsBytes(std::string_view("f"))};
  const client::v4::DelegationTable::Pointer delegation =
      std::make_shared<client::v4::Delegation>(file, nfs4::stateid4(), true, 1, client::Access::kBoth);
  uint32_t done = 0;
};

class Server {
 public:
  Server() {
    dispatcher_.Add(program_);
    peer_.buffers = &pool_;
  }

  void Call(Input& input) {
    const uint32_t slot = input.Octet() % (kSlots + 1);
    const uint32_t wrong = input.Octet();
    const uint32_t count = 1 + input.Octet() % 8;
    const uint32_t sequence = wrong < 224 ? sequences_[slot] + 1 : sequences_[slot] + wrong - 240;
    xdr::Encoder encoder(pool_);
    rpc::EncodeCallHeader(encoder, {rpc::Xid(++xid_), nfs4::NFS4_CALLBACK, 1, 1, {}, {}});
    xdr::Encode(encoder, nfs4::CB_COMPOUND4args_head{"fuzz", 1 + wrong % 2, 0, count});
    xdr::Encode(encoder, nfs4::nfs_cb_opnum4::OP_CB_SEQUENCE);
    xdr::Encode(encoder, nfs4::CB_SEQUENCE4args{{}, sequence, slot, kSlots, true, {}});
    for (uint32_t i = 1; i < count; ++i) {
      encoder.U32(input.Octet() % 20);
      const ConstBytes arguments = input.Take(size_t{4} * (input.Octet() % 32));
      encoder.Fixed(arguments.first(arguments.size() / 4 * 4));
    }
    const rpc::Message call = encoder.Finish();
    const uint32_t before = receiver_.done;
    const auto [status, reply] = Execute(call);
    if (receiver_.done - before >= count) Die("the client executed more than requested");
    if (status && sequence == sequences_[slot] + 1) Repeat(call, reply);
    if (status && slot < kSlots) sequences_[slot] = sequence;
  }

 private:
  struct Answer {
    // True if CB_SEQUENCE succeeded, so that the call counts.
    bool counts = false;
    std::vector<std::byte> reply;
  };

  Answer Execute(const rpc::Message& call) {
    const rpc::Message reply = fuzz::Ask(dispatcher_, call, peer_);
    xdr::Decoder decoder(reply);
    if (!fuzz::DecodeHead(decoder)) return {};
    nfs4::nfs_cb_opnum4 operation{};
    nfs4::CB_SEQUENCE4res result;
    if (!xdr::Decode(decoder, operation) || operation != nfs4::nfs_cb_opnum4::OP_CB_SEQUENCE ||
        !xdr::Decode(decoder, result)) {
      Die("no result of CB_SEQUENCE");
    }
    const auto octets = reply.stream.bytes();
    return {result.is_csr_resok4(), {octets.begin(), octets.end()}};
  }

  void Repeat(const rpc::Message& call, const std::vector<std::byte>& reply) {
    const uint32_t before = receiver_.done;
    if (Execute(call).reply != reply) Die("the repetition has another reply");
    if (receiver_.done != before) Die("the repetition was executed");
  }

  BufferPool pool_;
  Receiver receiver_;
  client::v4::CallbackProgram program_{kSlots, receiver_};
  rpc::Dispatcher dispatcher_;
  rpc::Peer peer_;
  uint32_t xid_ = 0;
  std::array<uint32_t, kSlots + 1> sequences_{};
};

// The client connects to these servers and looks up these names.
void CheckLocations(const std::vector<client::v4::Location>& locations) {
  if (locations.size() > client::v4::kMostLocations) Die("too many locations");
  for (const client::v4::Location& each : locations) {
    if (each.port && (*each.port == 0 || each.host.empty())) Die("a port without sense");
    for (const char c : each.host) {
      if (c <= ' ' || c > '~') Die("a host that is no text");
    }
    for (const std::string& name : each.path) {
      if (name.empty() || name == "." || name == ".." || name.find('/') != name.npos) Die("a name without sense");
    }
  }
}

void DecodeAttributes(Input& input) {
  const ConstBytes octets = input.Take(4096);
  const xdr::Message message = xdr::Message::Whole(Slice::Borrowed(octets));
  xdr::Decoder decoder(message);
  nfs4::fattr4 attributes;
  if (!xdr::Decode(decoder, attributes)) return;
  (void)client::v4::DecodeAttributes(attributes);
  (void)client::v4::DecodeLimits(attributes);
  (void)client::v4::DecodeError(attributes);
  if (const auto locations = client::v4::DecodeLocations(attributes)) CheckLocations(*locations);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Input input(data, size);
  if (input.Octet() % 4 == 0) {
    DecodeAttributes(input);
  } else {
    Server server;
    while (!input.empty()) server.Call(input);
  }
  return 0;
}
