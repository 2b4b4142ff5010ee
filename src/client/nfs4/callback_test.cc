#include "client/nfs4/callback.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <optional>
#include <set>

#include "client/nfs4/attributes.h"
#include "rpc/security_flavor.h"
#include "xdr/decode.h"
#include "xdr/encode.h"

namespace penstock::client::v4 {
namespace {

using nfs4::nfs_cb_opnum4;
using nfs4::nfsstat4;

TEST(CallbackSlots, AcceptEachSequenceIdOnce) {
  CallbackSlots slots(2);
  EXPECT_EQ(slots.HandleSequence(0, 0).status, nfsstat4::NFS4ERR_SEQ_MISORDERED) << "no call has used the slot";
  EXPECT_EQ(slots.HandleSequence(0, 2).status, nfsstat4::NFS4ERR_SEQ_MISORDERED);
  EXPECT_EQ(slots.HandleSequence(0, 1).status, nfsstat4::NFS4_OK);
  EXPECT_EQ(slots.HandleSequence(0, 1).status, nfsstat4::NFS4ERR_DELAY) << "the call is being executed";
  EXPECT_EQ(slots.HandleSequence(0, 2).status, nfsstat4::NFS4ERR_SEQ_MISORDERED);
  EXPECT_EQ(slots.HandleSequence(1, 1).status, nfsstat4::NFS4_OK);
  EXPECT_EQ(slots.HandleSequence(2, 1).status, nfsstat4::NFS4ERR_BADSLOT);
}

class CallbackTest : public testing::Test, protected CallbackReceiver {
 protected:
  CallbackTest() {
    dispatcher.Add(program);
    peer.buffers = &pool;
    current[0] = std::byte{9};
  }

  // Calls CB_COMPOUND with `count` operations. `encode` writes the operations.
  nfsstat4 Call(uint32_t count, const std::function<void(xdr::Encoder&)>& encode, uint32_t minor_version = 1) {
    xdr::Encoder encoder(pool);
    rpc::EncodeCallHeader(encoder, {rpc::Xid(++xid), nfs4::NFS4_CALLBACK, 1, 1, {}, {}});
    xdr::Encode(encoder, nfs4::CB_COMPOUND4args_head{"tag", minor_version, 0, count});
    encode(encoder);
    Deliver(encoder.Finish());
    xdr::Decoder decoder(reply);
    rpc::ReplyHeader header;
    EXPECT_TRUE(rpc::DecodeReplyHeader(decoder, header));
    EXPECT_TRUE(xdr::Decode(decoder, head));
    EXPECT_EQ(head.tag, "tag");
    rest.assign(decoder.rest().begin(), decoder.rest().end());
    return head.status;
  }
  void Deliver(rpc::Message message) {
    std::optional<rpc::Message> out;
    Spawn([](rpc::Dispatcher& to, rpc::Message call, const rpc::Peer& from, auto& answer) -> Task<void> {
      answer = co_await to.HandleCall(std::move(call), from);
    }(dispatcher, std::move(message), peer, out));
    reply = *std::move(out);
  }
  void EncodeSequence(xdr::Encoder& encoder, uint32_t slot, uint32_t sequence) const {
    xdr::Encode(encoder, nfs_cb_opnum4::OP_CB_SEQUENCE);
    xdr::Encode(encoder, nfs4::CB_SEQUENCE4args{current, sequence, slot, 0, true, {}});
  }
  nfsstat4 RecallSlot(uint32_t sequence, uint32_t target) {
    return Call(2, [&](xdr::Encoder& encoder) {
      EncodeSequence(encoder, 0, sequence);
      xdr::Encode(encoder, nfs_cb_opnum4::OP_CB_RECALL_SLOT);
      xdr::Encode(encoder, nfs4::CB_RECALL_SLOT4args{target});
    });
  }

  nfs4::sessionid4 session() const override { return current; }
  bool IsUnderWay(SlotUse request) const override { return request == under_way; }
  void HandleSlotTarget(uint32_t target) override { targets.push_back(target); }
  nfs4::nfsstat4 HandleRecall(const nfs4::CB_RECALL4args& recall) override {
    return delegation && recall.fh == delegation->handle() ? nfsstat4::NFS4_OK : nfsstat4::NFS4ERR_BAD_STATEID;
  }
  void HandleRecallAny(const nfs4::CB_RECALL_ANY4args& recall) override { keep = recall.craa_objects_to_keep; }
  DelegationTable::Pointer DelegationOf(const Handle& file) override {
    return delegation && file == delegation->handle() ? delegation : nullptr;
  }
  void HandleLockAvailable(const Handle& file) override { available = file; }

  // Executes one operation in its own CB_COMPOUND.
  nfsstat4 Execute(nfs_cb_opnum4 operation, const auto& arguments) {
    return Call(2, [&](xdr::Encoder& encoder) {
      EncodeSequence(encoder, 0, ++last_sequence);
      xdr::Encode(encoder, operation);
      xdr::Encode(encoder, arguments);
    });
  }

  BufferPool pool;
  nfs4::sessionid4 current{};
  SlotUse under_way{7, 3};
  std::vector<uint32_t> targets;
  DelegationTable::Pointer delegation;
  std::optional<uint32_t> keep;
  Handle available;
  uint32_t last_sequence = 0;
  CallbackProgram program{4, *this};
  rpc::Dispatcher dispatcher;
  rpc::Peer peer;
  uint32_t xid = 0;
  rpc::Message reply;
  nfs4::CB_COMPOUND4res_head head;
  std::vector<std::byte> rest;
};

// Admits every call under RPCSEC_GSS, as if it were authentic.
class Trusting final : public rpc::SecurityFlavor {
 public:
  Task<Admission> Admit(const rpc::Message& call, const rpc::CallHeader&, size_t arguments_at,
                        const rpc::Peer&) override {
    Admission admission;
    admission.call = std::make_unique<Admitted>(call.stream.Sub(arguments_at, call.stream.size() - arguments_at));
    co_return admission;
  }
  std::shared_ptr<rpc::ReverseProtection> Reverse(ConstBytes, ConstBytes, const rpc::GssInitiator&) override {
    return nullptr;
  }

 private:
  class Admitted final : public rpc::SecuredCall {
   public:
    explicit Admitted(Slice arguments) {
      credential_.flavor = rpc::AuthFlavor::RPCSEC_GSS;
      arguments_ = rpc::Message::Whole(std::move(arguments));
    }
    size_t reply_overhead() const override { return 0; }
    Task<rpc::Message> Seal(rpc::Message plain, const rpc::Peer&) override { co_return plain; }
  };
};

// A server that protects its callbacks makes no others. Those are of somebody between server and client.
TEST_F(CallbackTest, RefusesUnprotectedCallsAfterAProtectedOne) {
  Trusting trusting;
  dispatcher.Offer(trusting);
  EXPECT_EQ(RecallSlot(1, 5), nfsstat4::NFS4_OK) << "no call was protected yet";
  const auto answer = [&](rpc::AuthFlavor flavor, uint32_t procedure) {
    xdr::Encoder encoder(pool);
    const rpc::OpaqueAuth credential{.flavor = flavor, .body = {}};
    rpc::EncodeCallHeader(encoder, {rpc::Xid(++xid), nfs4::NFS4_CALLBACK, 1, procedure, credential, {}});
    if (procedure == 1) {
      xdr::Encode(encoder, nfs4::CB_COMPOUND4args_head{"tag", 1, 0, 1});
      EncodeSequence(encoder, 1, ++last_sequence);
    }
    Deliver(encoder.Finish());
    xdr::Decoder decoder(reply);
    rpc::ReplyHeader header;
    EXPECT_TRUE(rpc::DecodeReplyHeader(decoder, header));
    return header.body.is_areply() ? rpc::AuthStatus::AUTH_OK : header.body.rreply().why();
  };
  EXPECT_EQ(answer(rpc::AuthFlavor::RPCSEC_GSS, 1), rpc::AuthStatus::AUTH_OK);
  EXPECT_EQ(answer(rpc::AuthFlavor::AUTH_NONE, 1), rpc::AuthStatus::AUTH_TOOWEAK);
  EXPECT_EQ(answer(rpc::AuthFlavor::AUTH_NONE, 0), rpc::AuthStatus::AUTH_OK) << "CB_NULL takes every flavor";
  EXPECT_EQ(answer(rpc::AuthFlavor::RPCSEC_GSS, 1), rpc::AuthStatus::AUTH_OK);
}

// RFC 8881 §19.1
TEST_F(CallbackTest, AnswersCbNull) {
  xdr::Encoder encoder(pool);
  rpc::EncodeCallHeader(encoder, {rpc::Xid(++xid), nfs4::NFS4_CALLBACK, 1, nfs4::CB_NULL::kNumber, {}, {}});
  Deliver(encoder.Finish());
  xdr::Decoder decoder(reply);
  rpc::ReplyHeader header;
  ASSERT_TRUE(rpc::DecodeReplyHeader(decoder, header) && decoder.Finish());
  EXPECT_EQ(header.body.areply().reply_data.discriminant(), rpc::AcceptStatus::SUCCESS);
}

TEST_F(CallbackTest, ExecutesTheOperationsAfterCbSequence) {
  EXPECT_EQ(RecallSlot(1, 3), nfsstat4::NFS4_OK);
  EXPECT_EQ(head.count, 2u);
  EXPECT_EQ(targets, std::vector<uint32_t>{3});
}

// Otherwise the slot would answer NFS4ERR_DELAY for ever.
TEST_F(CallbackTest, ACompoundThatEndsTooEarlyGivesItsSlotBack) {
  EXPECT_EQ(Call(2, [&](xdr::Encoder& encoder) { EncodeSequence(encoder, 0, 1); }), nfsstat4::NFS4ERR_BADXDR);
  EXPECT_EQ(head.count, 2u);
  EXPECT_EQ(RecallSlot(2, 3), nfsstat4::NFS4_OK);
}

TEST_F(CallbackTest, AnswersARepetitionWithoutExecutingIt) {
  RecallSlot(1, 3);
  const std::vector<std::byte> first = rest;
  EXPECT_EQ(RecallSlot(1, 3), nfsstat4::NFS4_OK);
  EXPECT_EQ(rest, first);
  EXPECT_EQ(targets.size(), 1u);
  RecallSlot(2, 1);
  EXPECT_EQ(targets.size(), 2u);
}

TEST_F(CallbackTest, RejectsACompoundWithoutCbSequence) {
  EXPECT_EQ(Call(1,
                 [](xdr::Encoder& encoder) {
                   xdr::Encode(encoder, nfs_cb_opnum4::OP_CB_RECALL_SLOT);
                   xdr::Encode(encoder, nfs4::CB_RECALL_SLOT4args{0});
                 }),
            nfsstat4::NFS4ERR_OP_NOT_IN_SESSION);
  EXPECT_TRUE(targets.empty());
}

TEST_F(CallbackTest, RejectsAnotherSession) {
  RecallSlot(1, 3);
  const nfs4::sessionid4 ours = current;
  current[1] = std::byte{1};  // the client has a new session, whose sequence ids start from one
  EXPECT_EQ(RecallSlot(1, 3), nfsstat4::NFS4_OK);
  const nfs4::sessionid4 newer = current;
  EXPECT_EQ(Call(1,
                 [&](xdr::Encoder& encoder) {
                   current = ours;
                   EncodeSequence(encoder, 0, 2);
                   current = newer;
                 }),
            nfsstat4::NFS4ERR_BADSESSION);
}

TEST_F(CallbackTest, RejectsCallsForADelegationThatTheClientDoesNotHold) {
  EXPECT_EQ(Execute(nfs_cb_opnum4::OP_CB_RECALL, nfs4::CB_RECALL4args{}), nfsstat4::NFS4ERR_BAD_STATEID);
  EXPECT_EQ(head.count, 2u);
  EXPECT_EQ(Execute(nfs_cb_opnum4::OP_CB_GETATTR, nfs4::CB_GETATTR4args{}), nfsstat4::NFS4ERR_BADHANDLE);
  EXPECT_EQ(head.count, 2u);
}

TEST_F(CallbackTest, AnswersCbGetattrForADelegatedFile) {
  const Handle file(AsBytes(std::string_view("file")));
  delegation = std::make_shared<Delegation>(file, nfs4::stateid4(), true, 1, Access::kBoth);
  // The server asks for change, size and owner. The client gives change and size only.
  const nfs4::bitmap4 asked = {1u << 3 | 1u << 4, 1u << 4};
  EXPECT_EQ(Execute(nfs_cb_opnum4::OP_CB_GETATTR, nfs4::CB_GETATTR4args{file, asked}), nfsstat4::NFS4ERR_DELAY)
      << "the client does not know the size yet";
  delegation->Remember({.size = 100, .change = 7}, 0);
  delegation->HandleWrite(4096);
  EXPECT_EQ(Execute(nfs_cb_opnum4::OP_CB_GETATTR, nfs4::CB_GETATTR4args{file, asked}), nfsstat4::NFS4_OK);
  xdr::Message message;
  message.stream = Slice::Borrowed(rest);
  xdr::Decoder decoder(message);
  nfs_cb_opnum4 operation{};
  nfs4::CB_SEQUENCE4res before;
  nfs4::CB_GETATTR4res result;
  ASSERT_TRUE(xdr::Decode(decoder, operation) && xdr::Decode(decoder, before) && xdr::Decode(decoder, operation) &&
              xdr::Decode(decoder, result));
  EXPECT_EQ(result.resok4().obj_attributes.attrmask, (nfs4::bitmap4{1u << 3 | 1u << 4}));
  const std::optional<Attributes> told = DecodeAttributes(result.resok4().obj_attributes);
  ASSERT_TRUE(told);
  EXPECT_EQ(told->change, 8u);
  EXPECT_EQ(told->size, 4096u);
  EXPECT_EQ(Execute(nfs_cb_opnum4::OP_CB_RECALL, nfs4::CB_RECALL4args{{}, false, file}), nfsstat4::NFS4_OK);
}

TEST_F(CallbackTest, ForwardsRecallAnyAndLockNotices) {
  EXPECT_EQ(Execute(nfs_cb_opnum4::OP_CB_RECALL_ANY, nfs4::CB_RECALL_ANY4args{17, {3}}), nfsstat4::NFS4_OK);
  EXPECT_EQ(keep, 17u);
  const Handle file(AsBytes(std::string_view("file")));
  EXPECT_EQ(Execute(nfs_cb_opnum4::OP_CB_NOTIFY_LOCK, nfs4::CB_NOTIFY_LOCK4args{file, {}}), nfsstat4::NFS4_OK);
  EXPECT_EQ(available, file);
}

// RFC 8881 §20.6.3. The last two defined types are those of RFC 8435 §13.1.
TEST_F(CallbackTest, RefusesRecallAnyOfUndefinedTypesOnly) {
  const std::set<uint32_t> defined = {0, 1, 2, 3, 4, 8, 9, 12, 13, 14, 15, 16, 17};
  for (uint32_t type = 0; type < 64; ++type) {
    keep.reset();
    nfs4::bitmap4 mask(type / 32 + 1);
    mask.back() = 1u << type % 32;
    mask.front() |= 1;
    const bool is_defined = defined.contains(type);
    EXPECT_EQ(Execute(nfs_cb_opnum4::OP_CB_RECALL_ANY, nfs4::CB_RECALL_ANY4args{5, mask}),
              is_defined ? nfsstat4::NFS4_OK : nfsstat4::NFS4ERR_INVAL)
        << "type " << type;
    EXPECT_EQ(keep.has_value(), is_defined) << "type " << type;
  }
  EXPECT_EQ(Execute(nfs_cb_opnum4::OP_CB_RECALL_ANY, nfs4::CB_RECALL_ANY4args{5, {1, 0, 0}}), nfsstat4::NFS4_OK);
  EXPECT_EQ(Execute(nfs_cb_opnum4::OP_CB_RECALL_ANY, nfs4::CB_RECALL_ANY4args{6, {}}), nfsstat4::NFS4_OK);
  EXPECT_EQ(keep, 6u);
}

// RFC 8881 §2.10.6.3
TEST_F(CallbackTest, DelaysACallThatOvertakesAReply) {
  const auto recall = [&](nfs4::sessionid4 session_id) {
    return Call(2, [&](xdr::Encoder& encoder) {
      xdr::Encode(encoder, nfs_cb_opnum4::OP_CB_SEQUENCE);
      xdr::Encode(encoder, nfs4::CB_SEQUENCE4args{current, 1, 0, 0, true, {{session_id, {{2, 7}, {3, 7}}}}});
      xdr::Encode(encoder, nfs_cb_opnum4::OP_CB_RECALL_SLOT);
      xdr::Encode(encoder, nfs4::CB_RECALL_SLOT4args{0});
    });
  };
  EXPECT_EQ(recall(current), nfsstat4::NFS4ERR_DELAY);
  EXPECT_EQ(head.count, 1u);
  EXPECT_TRUE(targets.empty());
  under_way.sequence = 4;
  EXPECT_EQ(recall(current), nfsstat4::NFS4_OK) << "the same slot and sequence id are accepted now";
  EXPECT_EQ(targets.size(), 1u);
}

TEST_F(CallbackTest, IgnoresReferringCallsOfAnotherSession) {
  nfs4::sessionid4 other = current;
  other[5] = std::byte{1};
  EXPECT_EQ(Call(1,
                 [&](xdr::Encoder& encoder) {
                   xdr::Encode(encoder, nfs_cb_opnum4::OP_CB_SEQUENCE);
                   xdr::Encode(encoder, nfs4::CB_SEQUENCE4args{current, 1, 0, 0, true, {{other, {{3, 7}}}}});
                 }),
            nfsstat4::NFS4_OK);
}

TEST_F(CallbackTest, EndsTheCompoundAtAnUnknownOperation) {
  EXPECT_EQ(Call(3,
                 [&](xdr::Encoder& encoder) {
                   EncodeSequence(encoder, 0, 1);
                   xdr::Encode(encoder, static_cast<nfs_cb_opnum4>(99));
                 }),
            nfsstat4::NFS4ERR_OP_ILLEGAL);
  EXPECT_EQ(head.count, 2u);
  EXPECT_EQ(Call(2,
                 [&](xdr::Encoder& encoder) {
                   EncodeSequence(encoder, 0, 2);
                   EncodeSequence(encoder, 0, 3);
                 }),
            nfsstat4::NFS4ERR_SEQUENCE_POS);
}

TEST_F(CallbackTest, RejectsOtherMinorVersions) {
  for (const uint32_t minor_version : {0u, 3u}) {
    EXPECT_EQ(Call(
                  1, [&](xdr::Encoder& encoder) { EncodeSequence(encoder, 0, 1); }, minor_version),
              nfsstat4::NFS4ERR_MINOR_VERS_MISMATCH);
    EXPECT_EQ(head.count, 0u);
  }
}

TEST_F(CallbackTest, RejectsTruncatedArguments) {
  EXPECT_EQ(Call(1, [&](xdr::Encoder& encoder) { xdr::Encode(encoder, nfs_cb_opnum4::OP_CB_SEQUENCE); }),
            nfsstat4::NFS4ERR_BADXDR);
  EXPECT_EQ(Call(2,
                 [&](xdr::Encoder& encoder) {
                   EncodeSequence(encoder, 0, 1);
                   xdr::Encode(encoder, nfs_cb_opnum4::OP_CB_RECALL_SLOT);
                 }),
            nfsstat4::NFS4ERR_BADXDR);
}

}  // namespace
}  // namespace penstock::client::v4
