#include <fcntl.h>
#include <stdlib.h>

#include "metrics/counts.h"
#include "rpc/gss/sealing.h"
#include "rpc/gss/test_acceptor.h"

namespace penstock::rpc::gss {
namespace {

using rpc::testing::Add;
using rpc::testing::Echo;
using rpc::testing::Fail;
using rpc::testing::Null;
using rpc::testing::Read;
using rpc::testing::SlowAdd;
using rpc::testing::WhoAmI;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using enum AuthStatus;

class DataTest : public AcceptorTest {
 protected:
  DataTest() { Establish(); }

  Message Call(uint32_t procedure, const W& arguments, uint32_t number, const Spoil& spoil = {},
               GssService service = GssService::kNone) {
    return alice.Call(Xid(5), To(procedure), service, number, Encoded(arguments), spoil);
  }
  // Makes an unnamed file with these octets.
  static Data File(ConstBytes octets) {
    char name[] = "/tmp/penstock-gss-test-XXXXXX";
    auto file = std::make_shared<FileDescriptor>(::mkstemp(name));
    ::unlink(name);
    EXPECT_EQ(::write(file->get(), octets.data(), octets.size()), static_cast<ssize_t>(octets.size()));
    return {std::move(file), 0, octets.size()};
  }
};

TEST_F(DataTest, ExecutesCallsUnderEveryService) {
  for (const GssService service : kServices) {
    EXPECT_EQ(Results(service, Null::kNumber, {}), W{}) << static_cast<int>(service);
    EXPECT_EQ(Results(service, Echo::kNumber, {3, 0x61626300}), (W{3, 0x61626300})) << static_cast<int>(service);
  }
}

TEST_F(DataTest, TellsProgramsTheInitiator) {
  EXPECT_EQ(Results(GssService::kIntegrity, WhoAmI::kNumber, {}), W{1000});
  EXPECT_EQ(program.last.flavor, AuthFlavor::RPCSEC_GSS);
  EXPECT_EQ(program.last.gid, 100u);
  EXPECT_EQ(program.last.service, GssService::kIntegrity);
  EXPECT_EQ(program.last.group_count, 0u);
  ASSERT_TRUE(program.last.initiator);
  EXPECT_EQ(program.last.initiator->name, "toy:alice");
  EXPECT_EQ(program.last.initiator->display, "alice@TOY");
}

TEST_F(DataTest, MapsAnUnknownPrincipalToNobody) {
  testing::ToyInitiator toy("host/client");
  testing::Initiator client(toy, pool);
  Establish(client);
  const Message reply = Reply(client.Call(Xid(5), To(WhoAmI::kNumber), GssService::kNone, 1, Message()));
  EXPECT_THAT(WordsOf(*client.Open(reply, GssService::kNone, 1)), ElementsAre(kNobody));
}

// RFC 2203 §5.3.3.2: a reply with any status has a verifier; only results are sealed.
TEST_F(DataTest, RepliesWithoutResultsHaveAVerifier) {
  for (const GssService service : kServices) {
    const auto status = [&](Target target) {
      const uint32_t number = ++sequence;
      const Message reply = Reply(alice.Call(Xid(5), target, service, number, Message()));
      EXPECT_TRUE(alice.IsVerified(reply, number));
      EXPECT_FALSE(alice.IsVerified(reply, number + 1));
      return StatusOf(reply);
    };
    EXPECT_EQ(status(To(Fail::kNumber)), AcceptStatus::SYSTEM_ERR);
    EXPECT_EQ(status(To(77)), AcceptStatus::PROC_UNAVAIL);
    EXPECT_EQ(status(To(Add::kNumber)), AcceptStatus::GARBAGE_ARGS);
    EXPECT_EQ(status({.program = 99, .version = 3, .procedure = 0}), AcceptStatus::PROG_UNAVAIL);
    EXPECT_EQ(status({.program = rpc::testing::kTestProgram, .version = 7, .procedure = 0}),
              AcceptStatus::PROG_MISMATCH);
  }
}

TEST_F(DataTest, ProgramsCanDenyCalls) {
  program.denial = AUTH_TOOWEAK;
  EXPECT_EQ(Words(Call(Null::kNumber, {}, 1, {}, GssService::kPrivacy)), Denied(AUTH_TOOWEAK));
}

// ---- verification ----

TEST_F(DataTest, ReportsErrorsInTheCredential) {
  EXPECT_EQ(Words(Call(0, {}, 1, {.service = 0})), Denied(AUTH_BADCRED));
  EXPECT_EQ(Words(Call(0, {}, 1, {.service = 4})), Denied(AUTH_BADCRED));
  EXPECT_EQ(Words(Call(0, {}, 1, {.version = 2})), Denied(AUTH_BADCRED)) << "not the version of the context";
  EXPECT_EQ(Words(Call(0, {}, 1, {.handle = testing::Octets(16)})), Denied(RPCSEC_GSS_CREDPROBLEM));
  EXPECT_EQ(Words(Call(0, {}, 1, {.handle = testing::Octets()})), Denied(RPCSEC_GSS_CREDPROBLEM));
  EXPECT_EQ(Results(GssService::kNone, 0, {}), W{}) << "the number was not used up";
}

// Under "credential", as those of other flavors. Calls that are dropped since their number was used are among them.
TEST_F(DataTest, CountsRefusedCalls) {
  const auto counts = std::make_shared<metrics::Counts>(std::vector<metrics::Interface>(), 1);
  peer.counts = metrics::Recorder(counts, 0).Connect(metrics::Transport::kTcp, peer.address.address());
  const auto refused = [&] {
    return counts->loop(0).refusals[static_cast<size_t>(metrics::CallRefusal::kCredential)].value();
  };
  EXPECT_EQ(Results(GssService::kNone, 0, {}), W{});
  EXPECT_EQ(refused(), 0u);
  EXPECT_EQ(Words(Call(0, {}, 5, {.service = 4})), Denied(AUTH_BADCRED));
  EXPECT_EQ(refused(), 1u);
  EXPECT_EQ(Words(Call(0, {}, 5, {.verifier = true})), Denied(RPCSEC_GSS_CREDPROBLEM));
  EXPECT_EQ(refused(), 2u);
  EXPECT_FALSE(Reply(Call(0, {}, 6)).empty());
  EXPECT_TRUE(Reply(Call(0, {}, 6)).empty());
  EXPECT_EQ(refused(), 3u);
  testing::ToyInitiator toy("bob");
  testing::Initiator bob(toy, pool);
  Establish(bob);
  EXPECT_EQ(refused(), 3u) << "contexts are no calls of a program";
}

TEST_F(DataTest, ReportsErrorsInTheVerifier) {
  EXPECT_EQ(Words(Call(0, {}, 1, {.verifier = true})), Denied(RPCSEC_GSS_CREDPROBLEM));
  EXPECT_EQ(Words(Call(0, {}, 1, {.verifier_flavor = AuthFlavor::AUTH_NONE})), Denied(AUTH_BADVERF));
  EXPECT_EQ(Results(GssService::kNone, 0, {}), W{}) << "the number was not used up";
}

// The verifier covers the whole header, so an attacker cannot change the called procedure in transit.
TEST_F(DataTest, RejectsACallWhoseProcedureWasChanged) {
  const Message call = Call(Echo::kNumber, {3}, 1);
  W words = WordsOf(call);
  words[5] = Add::kNumber;
  EXPECT_EQ(Words(Encoded(words)), Denied(RPCSEC_GSS_CREDPROBLEM));
  EXPECT_EQ(program.sum, 0u);
}

TEST_F(DataTest, RejectsACallUnderAnotherClientsContext) {
  testing::ToyInitiator toy("bob");
  testing::Initiator bob(toy, pool);
  Establish(bob);
  const Message call = bob.Call(Xid(5), To(0), GssService::kNone, 1, Message(), {.handle = alice.handle()});
  EXPECT_EQ(Words(call), Denied(RPCSEC_GSS_CREDPROBLEM));
}

TEST_F(DataTest, RejectsACallUnderAnIncompleteContext) {
  mechanism.legs = 2;
  testing::ToyInitiator toy("bob");
  testing::Initiator bob(toy, pool);
  bob.HandleCreated(Reply(bob.Create(Xid(5), To(0))));
  EXPECT_EQ(Words(bob.Call(Xid(5), To(0), GssService::kNone, 1, Message())), Denied(RPCSEC_GSS_CREDPROBLEM));
}

TEST_F(DataTest, AnswersGarbageArgsToChangedArguments) {
  for (const GssService service : {GssService::kIntegrity, GssService::kPrivacy}) {
    for (const Spoil& spoil : {Spoil{.sequence_within = 99}, Spoil{.seal = true}}) {
      const uint32_t number = ++sequence;
      const Message reply = Reply(Call(Add::kNumber, {5}, number, spoil, service));
      EXPECT_TRUE(alice.IsVerified(reply, number));
      EXPECT_EQ(StatusOf(reply), AcceptStatus::GARBAGE_ARGS);
    }
  }
  EXPECT_EQ(program.sum, 0u);
}

TEST_F(DataTest, AnswersGarbageArgsToUnsealedArguments) {
  for (const uint32_t service : {2u, 3u}) {
    const uint32_t number = ++sequence;
    const Message reply = Reply(Call(Add::kNumber, {5}, number, {.service = service}));
    EXPECT_TRUE(alice.IsVerified(reply, number));
    EXPECT_EQ(StatusOf(reply), AcceptStatus::GARBAGE_ARGS);
  }
  EXPECT_EQ(program.sum, 0u);
}

// A call under the service none may be padded (RFC 5666 §3.9); the pads count from the first octet of its Send.
TEST_F(DataTest, TheArgumentsKeepThePadsOfTheirCall) {
  Message call = Encoded({1, 2, 3, 4});
  call.padding = {.boundary = 64, .threshold = 512, .offset = 36};
  const Message arguments = Behind(call, 8);
  EXPECT_EQ(arguments.padding, (xdr::Padding{.boundary = 64, .threshold = 512, .offset = 44}));
  EXPECT_EQ(arguments.padding.PadAt(0, 512), call.padding.PadAt(8, 512));
}

// ---- sequence numbers ----

TEST_F(DataTest, DropsAReplay) {
  const Message call = Call(Null::kNumber, {}, 7);
  EXPECT_FALSE(Reply(call).empty());
  EXPECT_TRUE(Reply(call).empty());
  EXPECT_TRUE(Reply(Call(Echo::kNumber, {3}, 7)).empty()) << "another call with the same number";
}

TEST_F(DataTest, DropsACallBelowTheWindow) {
  Reply(Call(0, {}, 10'000));
  EXPECT_FALSE(Reply(Call(0, {}, 10'001 - SequenceWindow::kSize)).empty());
  EXPECT_TRUE(Reply(Call(0, {}, 10'000 - SequenceWindow::kSize)).empty());
}

TEST_F(DataTest, ForgedSequenceNumberDoesNotMoveTheWindow) {
  EXPECT_EQ(Words(Call(0, {}, 1'000'000, {.verifier = true})), Denied(RPCSEC_GSS_CREDPROBLEM));
  EXPECT_FALSE(Reply(Call(0, {}, 1)).empty());
}

TEST_F(DataTest, RejectsSequenceNumbersFromTheMaximumOn) {
  EXPECT_FALSE(alice.IsVerified(Reply(Call(0, {}, 0x8000'0000)), 0x8000'0000));
  EXPECT_EQ(Words(Call(0, {}, 0x8000'0000)), Denied(RPCSEC_GSS_CTXPROBLEM));
  EXPECT_TRUE(alice.IsVerified(Reply(Call(0, {}, 0x7fff'ffff)), 0x7fff'ffff));
}

// ---- the end of contexts ----

TEST_F(DataTest, ClientDestroysItsContext) {
  for (const GssService service : kServices) {
    testing::ToyInitiator toy("bob");
    testing::Initiator bob(toy, pool);
    Establish(bob);
    const Message reply = Reply(bob.Destroy(Xid(6), To(0), service, 3));
    const auto results = bob.Open(reply, service, 3);
    ASSERT_TRUE(results);
    EXPECT_THAT(WordsOf(*results), IsEmpty());
    EXPECT_EQ(Words(bob.Call(Xid(5), To(0), service, 4, Message())), Denied(RPCSEC_GSS_CREDPROBLEM));
  }
  EXPECT_EQ(acceptor.contexts().established(), 1u);
}

TEST_F(DataTest, OtherClientsCannotDestroyAContext) {
  EXPECT_EQ(Words(alice.Destroy(Xid(5), To(0), GssService::kNone, 3, {.verifier = true})),
            Denied(RPCSEC_GSS_CREDPROBLEM));
  EXPECT_EQ(Results(GssService::kNone, 0, {}), W{});
  const Message call = Call(1, {}, 9, {.gss_procedure = 3});
  EXPECT_EQ(Words(call), Denied(AUTH_BADCRED)) << "not for NULLPROC";
}

TEST_F(DataTest, CallMayOutliveItsContext) {
  std::optional<Message> slow;
  Start(Call(SlowAdd::kNumber, {5}, 1, {}, GssService::kPrivacy), slow);
  EXPECT_FALSE(Reply(alice.Destroy(Xid(6), To(0), GssService::kNone, 2)).empty());
  program.Release();
  ASSERT_TRUE(slow);
  EXPECT_THAT(WordsOf(*alice.Open(*slow, GssService::kPrivacy, 1)), ElementsAre(5));
}

TEST_F(DataTest, ContextExpiresWithItsTicket) {
  mechanism.lifetime = std::chrono::hours(10);
  testing::ToyInitiator toy("bob");
  testing::Initiator bob(toy, pool);
  Establish(bob);
  const auto call = [&](uint32_t number) { return bob.Call(Xid(5), To(0), GssService::kNone, number, Message()); };
  EXPECT_TRUE(bob.IsVerified(Reply(call(1)), 1));
  clock.now += std::chrono::hours(10);
  EXPECT_EQ(Words(call(2)), Denied(RPCSEC_GSS_CTXPROBLEM));
  EXPECT_EQ(Words(call(3)), Denied(RPCSEC_GSS_CREDPROBLEM)) << "the context is forgotten";
}

TEST_F(DataTest, EndsAContextThatTheMechanismReportsExpired) {
  mechanism.verify_failure = kContextExpired;
  EXPECT_EQ(Words(Call(0, {}, 1)), Denied(RPCSEC_GSS_CTXPROBLEM));
  mechanism.verify_failure = kFailure;
  EXPECT_EQ(Words(Call(0, {}, 1)), Denied(RPCSEC_GSS_CREDPROBLEM));
}

// ---- failures of the mechanism ----

TEST_F(DataTest, SendsNoReplyIfItCannotMakeAVerifier) {
  mechanism.mics_to_give = 0;
  EXPECT_EQ(Words(Call(0, {}, 1)), Denied(RPCSEC_GSS_CTXPROBLEM));
}

TEST_F(DataTest, SendsNoReplyIfItCannotSealTheResults) {
  mechanism.mics_to_give = 1;  // enough for the verifier only
  EXPECT_TRUE(Reply(Call(0, {}, 1, {}, GssService::kIntegrity)).empty());
  mechanism.mics_to_give = 100;
  mechanism.wraps = false;
  EXPECT_TRUE(Reply(Call(0, {}, 2, {}, GssService::kPrivacy)).empty());
}

// ---- retransmitted calls ----

TEST_F(DataTest, RecognizesARetransmissionUnderAnotherSequenceNumber) {
  for (const GssService service : kServices) {
    const uint32_t xid = 100 + static_cast<uint32_t>(service);
    const uint32_t before = program.sum;
    EXPECT_EQ(Results(service, Add::kNumber, {10}, xid), W{before + 10});
    EXPECT_EQ(Results(service, Add::kNumber, {10}, xid), W{before + 10}) << "with the verifier of the second";
    EXPECT_EQ(program.sum, before + 10);
  }
}

TEST_F(DataTest, RecognizesARetransmissionUnderAnotherContext) {
  EXPECT_EQ(Results(GssService::kPrivacy, Add::kNumber, {10}), W{10});
  testing::Initiator again(toy_alice, pool);
  Establish(again);
  const Message reply = Reply(again.Call(Xid(5), To(Add::kNumber), GssService::kIntegrity, 1, Encoded({10})));
  EXPECT_THAT(WordsOf(*again.Open(reply, GssService::kIntegrity, 1)), ElementsAre(10));
  EXPECT_EQ(program.sum, 10u);
}

TEST_F(DataTest, DoesNotReplayAReplyToAnotherInitiator) {
  EXPECT_EQ(Results(GssService::kPrivacy, Add::kNumber, {10}), W{10});
  testing::ToyInitiator toy("bob");
  testing::Initiator bob(toy, pool);
  Establish(bob);
  const Message reply = Reply(bob.Call(Xid(5), To(Add::kNumber), GssService::kNone, 1, Encoded({10})));
  EXPECT_THAT(WordsOf(*bob.Open(reply, GssService::kNone, 1)), ElementsAre(20));
  const W plain = {5, 0, 2, rpc::testing::kTestProgram, 3, Add::kNumber, 0, 0, 0, 0, 10};
  EXPECT_THAT(Words(Encoded(plain)), ElementsAre(5, 1, 0, 0, 0, 0, 30));
}

TEST_F(DataTest, SealsTheReplyForEachDuplicateSeparately) {
  std::optional<Message> first;
  std::optional<Message> second;
  Start(Call(SlowAdd::kNumber, {1}, 1, {}, GssService::kPrivacy), first);
  Start(Call(SlowAdd::kNumber, {1}, 2, {}, GssService::kPrivacy), second);
  EXPECT_EQ(program.waiting.size(), 1u);
  program.Release();
  ASSERT_TRUE(first && second);
  EXPECT_THAT(WordsOf(*alice.Open(*first, GssService::kPrivacy, 1)), ElementsAre(1));
  EXPECT_THAT(WordsOf(*alice.Open(*second, GssService::kPrivacy, 2)), ElementsAre(1));
}

// ---- payloads ----

// RFC 8166 §8.2.2.2: without a seal, payloads are placed as under other flavors.
TEST_F(DataTest, KeepsPayloadsOfAnUnsealedReplySeparate) {
  program.data = File(AsBytes("hello"));
  const Message reply = Reply(Call(Read::kNumber, {100}, 1));
  ASSERT_EQ(reply.items.size(), 1u);
  EXPECT_TRUE(reply.items[0].data.is_file());
  auto results = alice.Open(reply, GssService::kNone, 1);
  ASSERT_TRUE(results);
  ASSERT_TRUE(xdr::LoadFiles(*results, pool));
  const Slice flat = xdr::Unreduce(pool, *results);
  EXPECT_EQ(AsText(flat.bytes()), std::string_view("\0\0\0\5hello\0\0\0", 12));
}

// RFC 8166 §8.2.2.3
TEST_F(DataTest, SealedReplyHasNoSeparatePayloads) {
  program.data = File(AsBytes("hello"));
  for (const GssService service : {GssService::kIntegrity, GssService::kPrivacy}) {
    const uint32_t number = ++sequence;
    const Message reply = Reply(Call(Read::kNumber, {100}, number, {}, service));
    EXPECT_THAT(reply.items, IsEmpty());
    const auto results = alice.Open(reply, service, number);
    ASSERT_TRUE(results);
    EXPECT_EQ(AsText(results->stream.bytes()), std::string_view("\0\0\0\5hello\0\0\0", 12));
  }
}

// A directory can be opened, but reading it fails.
TEST_F(DataTest, SendsNoReplyIfItsFileCannotBeRead) {
  program.data = Data(std::make_shared<FileDescriptor>(::open("/", O_RDONLY | O_DIRECTORY)), 0, 5);
  for (const GssService service : {GssService::kIntegrity, GssService::kPrivacy}) {
    EXPECT_TRUE(Reply(Call(Read::kNumber, {5}, ++sequence, {}, service)).empty());
  }
}

TEST_F(DataTest, AcceptsSeparatePayloadsOfAnUnsealedCall) {
  Message call = Call(Add::kNumber, {}, 1);
  call.items.push_back({.offset = call.stream.size(), .data = Encoded({10}).stream});
  Reply(call);
  EXPECT_EQ(cache.entries(), 1u) << "cached as GARBAGE_ARGS: Add has no payload";
  call = Call(Add::kNumber, {10}, 2);
  call.items.push_back({.offset = 4, .data = Encoded({10}).stream});
  const Message reply = Reply(call);
  EXPECT_TRUE(alice.IsVerified(reply, 2));
  EXPECT_EQ(StatusOf(reply), AcceptStatus::GARBAGE_ARGS) << "a payload within the header";
}

// RFC 8166 §8.2.2.3
TEST_F(DataTest, AnswersGarbageArgsToASealedAndReducedCall) {
  for (const GssService service : {GssService::kIntegrity, GssService::kPrivacy}) {
    const uint32_t number = ++sequence;
    Message call = Call(Echo::kNumber, {0}, number, {}, service);
    call.items.push_back({.offset = call.stream.size(), .data = Slice()});
    const Message reply = Reply(call);
    EXPECT_TRUE(alice.IsVerified(reply, number));
    EXPECT_EQ(StatusOf(reply), AcceptStatus::GARBAGE_ARGS);
  }
}

// Programs obey limits for the whole message, so they must know the overhead.
TEST_F(DataTest, TellsProgramsTheOverheadOfTheSeal) {
  for (const GssService service : kServices) {
    const uint32_t number = ++sequence;
    const Message call = Call(Echo::kNumber, {6, 0x61626364, 0x65660000}, number, {}, service);
    const Message reply = Reply(call);
    EXPECT_EQ(program.last_call_octets, call.flat_size());
    const size_t plain = 24 + 12;
    EXPECT_LE(reply.flat_size(), plain + program.last_reply_overhead) << static_cast<int>(service);
    EXPECT_GE(reply.flat_size() + 16, plain + program.last_reply_overhead) << static_cast<int>(service);
  }
}

TEST_F(DataTest, FreesItsMemory) {
  {
    EXPECT_EQ(Results(GssService::kPrivacy, Echo::kNumber, {3, 0x61626300}), (W{3, 0x61626300}));
  }
  EXPECT_EQ(pool.outstanding(), 0u);
}

}  // namespace
}  // namespace penstock::rpc::gss
