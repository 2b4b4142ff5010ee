#include "client/nfs4/session.h"

#include <gtest/gtest.h>

#include <asio/io_context.hpp>
#include <deque>
#include <map>
#include <optional>
#include <ranges>

#include "base/loop.h"
#include "base/test_loop.h"

namespace penstock::client::v4 {
namespace {

using namespace std::chrono_literals;
using nfs4::nfs_opnum4;
using nfs4::nfsstat4;

// The parts of a server that a session uses: client ids, sessions, slots with cached replies, and a few operations. The
// server counts their executions.
class FakeServer final : public rpc::Channel {
 public:
  explicit FakeServer(Loop& loop) : loop_(loop) {}

  // The faults of the next calls.
  enum class Fault {
    kNone,
    kReplyLate,
    kReplyLost,
    kCallLost,
    kRepeated,  // the reply is lost with its connection, and the channel sends the call again over the next connection
  };
  // After a repetition or a lost reply, this many SEQUENCEs in the slot find that the first request is still being
  // executed.
  int busy = 0;
  std::deque<Fault> faults;
  // The errors of the next REMOVEs and CREATE_SESSIONs, which are not executed.
  std::deque<nfsstat4> remove_errors;
  std::deque<nfsstat4> create_errors;
  bool keeps_replies = true;  // whether the server caches a reply if the client asks for it
  uint32_t status_flags = 0;
  std::optional<nfs4::nfs_impl_id4> implementation;  // the name of the implementation, if the server tells it
  uint32_t slots = 8;
  uint32_t target = 100;
  Duration latency = Duration::zero();

  // Forgets all sessions. Restart() also forgets the client ids.
  void LoseSessions() { sessions_.clear(); }
  void Restart() {
    sessions_.clear();
    client_ = 0;
  }

  int removes = 0;
  int early_removes = 0;  // executed under a new client id before RECLAIM_COMPLETE
  int closes = 0;
  int lookups = 0;
  int exchanges = 0;
  int creations = 0;
  int sequences = 0;
  int binds = 0;
  int reclaims_completed = 0;
  int destroyed = 0;
  size_t most_running = 0;

  Task<Result<rpc::Message, rpc::CallError>> Call(rpc::Message call, rpc::ReplyShape shape) override {
    most_running = std::max(most_running, ++running_);
    if (latency > Duration::zero()) co_await Sleep(loop_, latency);
    --running_;
    Fault fault = Fault::kNone;
    if (!faults.empty()) {
      fault = faults.front();
      faults.pop_front();
    }
    if (fault == Fault::kCallLost) co_return std::unexpected(rpc::CallError::kTimedOut);
    rpc::Message reply = Execute(call);
    if (fault == Fault::kRepeated) reply = Execute(call);
    EXPECT_LE(reply.stream.size(), shape.max_stream) << "the reply exceeds its estimate";
    if (fault == Fault::kReplyLost) co_return std::unexpected(rpc::CallError::kTimedOut);
    if (fault == Fault::kReplyLate) co_await late;
    co_return reply;
  }
  Signal late;  // releases the late replies

 private:
  struct Slot {
    uint32_t sequence = 0;
    bool cached = false;
    rpc::Message reply;
  };

  rpc::Message Execute(const rpc::Message& call) {
    xdr::Decoder in(call);
    rpc::CallHeader header;
    nfs4::COMPOUND4args_head head;
    EXPECT_EQ(rpc::DecodeCallHeader(in, header), rpc::HeaderProblem::kNone);
    EXPECT_TRUE(xdr::Decode(in, head));
    xdr::Encoder out(loop_.buffers());
    rpc::EncodeAccepted(out, header.xid, rpc::AcceptStatus::SUCCESS);
    const auto start = out.mark();
    const size_t status_at = out.reduced_size();
    xdr::Encode(out, nfs4::COMPOUND4res_head{nfsstat4::NFS4_OK, {}, 0});
    const size_t count_at = out.reduced_size() - 4;
    auto status = nfsstat4::NFS4_OK;
    slot_ = nullptr;
    uncached_ = false;
    more_ = head.count > 1;
    uint32_t done = 0;
    for (; done < head.count && status == nfsstat4::NFS4_OK; ++done) {
      status = One(in, out);
      if (replay_) {
        out.Rewind(start);
        out.Append(*std::exchange(replay_, nullptr));
        return out.Finish();
      }
    }
    out.PatchU32(status_at, static_cast<uint32_t>(status));
    out.PatchU32(count_at, done);
    if (slot_ && slot_->cached) slot_->reply = out.CopySince(start);
    return out.Finish();
  }

  template <class T>
  T Arguments(xdr::Decoder& in) {
    T arguments;
    EXPECT_TRUE(xdr::Decode(in, arguments));
    return arguments;
  }

  nfsstat4 One(xdr::Decoder& in, xdr::Encoder& out) {
    nfs_opnum4 operation;
    EXPECT_TRUE(xdr::Decode(in, operation));
    xdr::Encode(out, operation);
    switch (operation) {
      case nfs_opnum4::OP_EXCHANGE_ID: {
        ++exchanges;
        Arguments<nfs4::EXCHANGE_ID4args>(in);
        if (client_ == 0) client_ = ++last_client_;
        nfs4::EXCHANGE_ID4resok result;
        result.eir_clientid = client_;
        result.eir_sequenceid = create_sequence_;
        result.eir_server_impl_id = implementation;
        xdr::Encode(out, nfs4::EXCHANGE_ID4res(nfsstat4::NFS4_OK, result));
        return nfsstat4::NFS4_OK;
      }
      case nfs_opnum4::OP_CREATE_SESSION:
        return CreateSession(Arguments<nfs4::CREATE_SESSION4args>(in), out);
      case nfs_opnum4::OP_SEQUENCE:
        return Sequence(Arguments<nfs4::SEQUENCE4args>(in), out);
      case nfs_opnum4::OP_REMOVE: {
        Arguments<nfs4::REMOVE4args>(in);
        auto status = nfsstat4::NFS4_OK;
        if (!remove_errors.empty()) {
          status = remove_errors.front();
          remove_errors.pop_front();
          xdr::Encode(out, nfs4::REMOVE4res(status));
        } else {
          ++removes;
          if (reclaims_completed < exchanges) ++early_removes;
          xdr::Encode(out, nfs4::REMOVE4res(status, nfs4::REMOVE4resok()));
        }
        return status;
      }
      case nfs_opnum4::OP_LOOKUP: {
        Arguments<nfs4::LOOKUP4args>(in);
        // RFC 8881 §2.10.6.1.3: SEQUENCE itself has succeeded.
        const auto status = uncached_ ? nfsstat4::NFS4ERR_RETRY_UNCACHED_REP : nfsstat4::NFS4_OK;
        if (!uncached_) ++lookups;
        xdr::Encode(out, nfs4::LOOKUP4res{status});
        return status;
      }
      case nfs_opnum4::OP_CLOSE:
        ++closes;
        Arguments<nfs4::CLOSE4args>(in);
        xdr::Encode(out, nfs4::CLOSE4res(nfsstat4::NFS4_OK, nfs4::stateid4()));
        return nfsstat4::NFS4_OK;
      case nfs_opnum4::OP_BIND_CONN_TO_SESSION: {
        ++binds;
        const auto arguments = Arguments<nfs4::BIND_CONN_TO_SESSION4args>(in);
        const nfs4::BIND_CONN_TO_SESSION4resok result{arguments.bctsa_sessid,
                                                      nfs4::channel_dir_from_server4::CDFS4_BOTH, false};
        xdr::Encode(out, nfs4::BIND_CONN_TO_SESSION4res(nfsstat4::NFS4_OK, result));
        return nfsstat4::NFS4_OK;
      }
      case nfs_opnum4::OP_RECLAIM_COMPLETE:
        Arguments<nfs4::RECLAIM_COMPLETE4args>(in);
        ++reclaims_completed;
        break;
      case nfs_opnum4::OP_DESTROY_SESSION:
        Arguments<nfs4::DESTROY_SESSION4args>(in);
        ++destroyed;
        break;
      case nfs_opnum4::OP_DESTROY_CLIENTID:
        Arguments<nfs4::DESTROY_CLIENTID4args>(in);
        ++destroyed;
        break;
      default:
        ADD_FAILURE() << "operation " << static_cast<int>(operation);
    }
    xdr::Encode(out, nfsstat4::NFS4_OK);
    return nfsstat4::NFS4_OK;
  }

  nfsstat4 CreateSession(const nfs4::CREATE_SESSION4args& arguments, xdr::Encoder& out) {
    ++creations;
    auto status = nfsstat4::NFS4_OK;
    if (!create_errors.empty()) {
      status = create_errors.front();
      create_errors.pop_front();
    } else if (arguments.csa_clientid != client_) {
      status = nfsstat4::NFS4ERR_STALE_CLIENTID;
    } else if (arguments.csa_sequence != create_sequence_) {
      status = nfsstat4::NFS4ERR_SEQ_MISORDERED;
    }
    if (status != nfsstat4::NFS4_OK) {
      xdr::Encode(out, nfs4::CREATE_SESSION4res(status));
      return status;
    }
    ++create_sequence_;
    nfs4::CREATE_SESSION4resok result;
    result.csr_sessionid[0] = std::byte(++last_session_);
    result.csr_fore_chan_attrs = arguments.csa_fore_chan_attrs;
    result.csr_fore_chan_attrs.ca_maxrequests = slots;
    sessions_[result.csr_sessionid].resize(slots);
    xdr::Encode(out, nfs4::CREATE_SESSION4res(status, result));
    return status;
  }

  nfsstat4 Sequence(const nfs4::SEQUENCE4args& arguments, xdr::Encoder& out) {
    ++sequences;
    const auto fail = [&](nfsstat4 status) {
      xdr::Encode(out, nfs4::SEQUENCE4res(status));
      return status;
    };
    const auto succeed = [&] {
      const nfs4::SEQUENCE4resok result{
          arguments.sa_sessionid, arguments.sa_sequenceid, arguments.sa_slotid, slots - 1, target, status_flags};
      xdr::Encode(out, nfs4::SEQUENCE4res(nfsstat4::NFS4_OK, result));
      return nfsstat4::NFS4_OK;
    };
    const auto session = sessions_.find(arguments.sa_sessionid);
    if (session == sessions_.end()) return fail(nfsstat4::NFS4ERR_BADSESSION);
    if (arguments.sa_slotid >= session->second.size()) return fail(nfsstat4::NFS4ERR_BADSLOT);
    Slot& slot = session->second[arguments.sa_slotid];
    if (arguments.sa_sequenceid == slot.sequence) {
      if (busy > 0) {
        --busy;
        return fail(nfsstat4::NFS4ERR_DELAY);
      }
      if (slot.cached) {
        replay_ = &slot.reply;
        return nfsstat4::NFS4_OK;
      }
      if (!more_ || !keeps_replies) return fail(nfsstat4::NFS4ERR_RETRY_UNCACHED_REP);
      uncached_ = true;
      return succeed();
    }
    if (arguments.sa_sequenceid != slot.sequence + 1) return fail(nfsstat4::NFS4ERR_SEQ_MISORDERED);
    slot = {arguments.sa_sequenceid, arguments.sa_cachethis && keeps_replies, {}};
    slot_ = &slot;
    return succeed();
  }

  Loop& loop_;
  std::map<nfs4::sessionid4, std::vector<Slot>> sessions_;
  Slot* slot_ = nullptr;  // the slot of the current COMPOUND
  const rpc::Message* replay_ = nullptr;
  bool uncached_ = false;  // the COMPOUND was executed before, and its reply was not cached
  bool more_ = false;      // the COMPOUND has operations behind SEQUENCE
  uint64_t client_ = 0;
  uint64_t last_client_ = 0;
  uint8_t last_session_ = 0;
  uint32_t create_sequence_ = 1;
  size_t running_ = 0;
};

class SessionTest : public testing::Test {
 protected:
  explicit SessionTest(Duration give_up_after = kTestPatience / 2)
      : options{.owner = "client", .give_up_after = give_up_after} {}
  ~SessionTest() override {
    Run(session.Close());
    Turn(1ms);
  }

  void Turn(Duration time) { TurnFor(loop, time); }
  void TurnUntil(const std::function<bool()>& done) { ASSERT_TRUE(penstock::TurnUntil(loop, done)); }
  void Run(Task<void> task) {
    bool done = false;
    Spawn([](Task<void> inner, bool& flag) -> Task<void> {
      co_await std::move(inner);
      flag = true;
    }(std::move(task), done));
    TurnUntil([&] { return done; });
  }
  void Establish() {
    std::optional<Result<void>> result;
    Spawn([](Session& s, std::optional<Result<void>>& out) -> Task<void> { out = co_await s.Establish("server"); }(
                                                               session, result));
    TurnUntil([&] { return result.has_value(); });
    ASSERT_TRUE(*result) << result->error().message;
  }
  using Outcome = std::optional<Result<void>>;
  template <class Operation>
  void Start(Operation operation, Outcome& out) {
    Spawn([](Session& s, Operation one, Outcome& result) -> Task<void> {
      auto reply = co_await s.Call([&one] { return std::tuple(one); }, "name");
      if (reply) {
        result = Result<void>();
      } else {
        result = std::unexpected(reply.error());
      }
    }(session, operation, out));
  }
  void StartRemove(Outcome& out) { Start(nfs4::REMOVE4args{"name"}, out); }
  // Starts `count` REMOVEs at once.
  void StartRemoves(size_t count) {
    outcomes = std::vector<Outcome>(count);
    for (Outcome& outcome : outcomes) StartRemove(outcome);
  }
  void ExpectAllToSucceed() {
    TurnUntil([&] { return std::ranges::all_of(outcomes, [](const Outcome& o) { return o.has_value(); }); });
    for (const Outcome& outcome : outcomes) EXPECT_TRUE(*outcome);
  }
  template <class Operation>
  Result<void> Do(Operation operation) {
    Outcome out;
    Start(operation, out);
    TurnUntil([&] { return out.has_value(); });
    return *std::move(out);
  }
  Result<void> Remove() { return Do(nfs4::REMOVE4args{"name"}); }
  Result<void> Lookup() { return Do(nfs4::LOOKUP4args{nfs4::component4("name")}); }

  Loop loop;
  FakeServer server{loop};
  rpc::Client client{server, loop.buffers(), rpc::Xid(1)};
  CallerOptions options;
  Session session{loop, client, options};
  std::vector<Outcome> outcomes;  // of StartRemoves()
};

class ImpatientSessionTest : public SessionTest {
 protected:
  ImpatientSessionTest() : SessionTest(2s) {}
};

TEST_F(SessionTest, EstablishesAndDestroysASession) {
  Establish();
  EXPECT_TRUE(Remove());
  EXPECT_EQ(server.removes, 1);
  EXPECT_EQ(server.reclaims_completed, 1);
  Run(session.Close());
  EXPECT_EQ(server.destroyed, 2);
}

// RFC 8881 §18.35.3
class ServersByNameTest : public SessionTest, public testing::WithParamInterface<bool> {};

TEST_P(ServersByNameTest, IgnoresTheNameOfTheServersImplementation) {
  if (GetParam()) server.implementation = {.nii_domain = "example.org", .nii_name = "a server", .nii_date = {}};
  Establish();
  EXPECT_TRUE(Remove());
  EXPECT_EQ(server.exchanges, 1);
  EXPECT_EQ(server.creations, 1);
}

INSTANTIATE_TEST_SUITE_P(All, ServersByNameTest, testing::Bool(),
                         [](const auto& test) { return test.param ? "named" : "unnamed"; });

TEST_F(SessionTest, CallsShareTheSlots) {
  server.slots = 3;
  server.latency = 2ms;
  Establish();
  StartRemoves(20);
  ExpectAllToSucceed();
  EXPECT_EQ(server.removes, 20);
  EXPECT_EQ(server.most_running, 3u);
}

TEST_F(SessionTest, UsesFewerSlotsIfTheServerAsksForIt) {
  server.latency = 2ms;
  server.target = 0;
  Establish();
  StartRemoves(5);
  ExpectAllToSucceed();
  EXPECT_EQ(server.most_running, 1u);
}

TEST_F(SessionTest, RepeatsACallThatTheServerDelays) {
  Establish();
  server.remove_errors = {nfsstat4::NFS4ERR_DELAY, nfsstat4::NFS4ERR_GRACE};
  EXPECT_TRUE(Remove());
  EXPECT_EQ(server.removes, 1);
}

TEST_F(SessionTest, ReturnsOtherErrorsToTheCaller) {
  Establish();
  server.remove_errors = {nfsstat4::NFS4ERR_NOENT};
  const Result<void> result = Remove();
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().status, Status::kNotFound);
  EXPECT_EQ(result.error().message, "name: no such file or directory");
}

TEST_F(SessionTest, CreatesALostSessionAgainOnce) {
  server.latency = 2ms;
  Establish();
  server.LoseSessions();
  StartRemoves(6);
  ExpectAllToSucceed();
  EXPECT_EQ(server.removes, 6);
  EXPECT_EQ(server.creations, 2);
  EXPECT_EQ(server.exchanges, 1);
}

// RFC 8881 §8.4.2.1
TEST_F(SessionTest, ReclaimsStateBeforeOtherCallsAfterARestart) {
  int reclaims = 0;
  session.set_reclaim([&]() -> Task<void> {
    EXPECT_EQ(server.reclaims_completed, reclaims);
    ++reclaims;
    co_return;
  });
  Establish();
  EXPECT_EQ(reclaims, 1);
  server.Restart();
  EXPECT_TRUE(Remove());
  EXPECT_EQ(reclaims, 2);
  EXPECT_EQ(server.reclaims_completed, 2);
  EXPECT_EQ(server.exchanges, 2);
  EXPECT_EQ(server.removes, 1);
}

// The state that they use may be lost, or not yet reclaimed.
TEST_F(SessionTest, CallsThatWaitForASlotAlsoWaitForTheReclaim) {
  session.set_reclaim([&]() -> Task<void> { co_await Sleep(loop, 5ms); });
  server.slots = 2;
  Establish();
  server.faults = {FakeServer::Fault::kReplyLate};
  outcomes = std::vector<Outcome>(200);
  StartRemove(outcomes[0]);
  server.latency = 2ms;
  for (Outcome& outcome : outcomes | std::views::drop(1)) StartRemove(outcome);
  server.Restart();
  TurnUntil([&] { return server.reclaims_completed == 2; });
  server.late.Notify();
  ExpectAllToSucceed();
  EXPECT_EQ(server.removes, 200);
  EXPECT_EQ(server.early_removes, 0);
}

TEST_F(SessionTest, RepeatsAReclaimThatTheServerDelays) {
  std::vector<Reclaimed> reclaimed;
  session.set_reclaim([&]() -> Task<void> {
    const auto build = [] { return std::tuple(nfs4::REMOVE4args{"name"}); };
    const auto reply = co_await session.ReclaimCall(build, "name");
    if (reply) reclaimed.push_back(ReclaimedBy(reply->status));
  });
  server.remove_errors = {nfsstat4::NFS4ERR_DELAY, nfsstat4::NFS4ERR_DELAY};
  Establish();
  EXPECT_EQ(reclaimed, std::vector{Reclaimed::kYes});
  EXPECT_EQ(server.removes, 1);

  server.remove_errors = {nfsstat4::NFS4ERR_NO_GRACE};
  server.Restart();
  EXPECT_TRUE(Lookup());
  EXPECT_EQ(reclaimed, (std::vector{Reclaimed::kYes, Reclaimed::kNo}));
}

TEST_F(SessionTest, ReclaimsLaterIfTheSessionIsLostAgain) {
  std::vector<Reclaimed> reclaimed;
  session.set_reclaim([&]() -> Task<void> {
    if (reclaimed.size() < 2) server.Restart();
    const auto build = [] { return std::tuple(nfs4::REMOVE4args{"name"}); };
    const auto reply = co_await session.ReclaimCall(build, "name");
    if (reply) reclaimed.push_back(ReclaimedBy(reply->status));
  });
  Establish();
  EXPECT_EQ(reclaimed, (std::vector{Reclaimed::kLater, Reclaimed::kLater, Reclaimed::kYes}));
  EXPECT_EQ(server.removes, 1);
}

TEST_F(SessionTest, ReusesASlotWithoutReplyWhetherItsRequestWasExecutedOrNot) {
  server.slots = 1;
  Establish();
  for (const auto fault : {FakeServer::Fault::kReplyLost, FakeServer::Fault::kCallLost}) {
    server.faults = {fault};
    EXPECT_FALSE(Remove());
    const int before = server.removes;
    EXPECT_TRUE(Remove());
    EXPECT_EQ(server.removes, before + 1);
  }
  EXPECT_EQ(server.creations, 1);
}

// RFC 8881 §2.10.6.2: no other request may use the slot before the reply has come.
TEST_F(SessionTest, ARepeatedRequestKeepsItsSlotWhileItIsExecuted) {
  Establish();
  server.faults = {FakeServer::Fault::kRepeated};
  server.busy = 3;
  Outcome first, second;
  StartRemove(first);
  Start(nfs4::LOOKUP4args{nfs4::component4("name")}, second);
  TurnUntil([&] { return first.has_value() && second.has_value(); });
  EXPECT_TRUE(*first);
  EXPECT_TRUE(*second);
  EXPECT_EQ(server.removes, 1);
  EXPECT_EQ(server.lookups, 1);
  EXPECT_EQ(server.creations, 1);
}

TEST_F(SessionTest, DoesNotReuseASlotWhileItsRequestIsExecuted) {
  server.slots = 1;
  Establish();
  server.faults = {FakeServer::Fault::kReplyLost};
  EXPECT_FALSE(Remove());
  server.busy = 2;
  EXPECT_TRUE(Remove());
  EXPECT_EQ(server.removes, 2);
  EXPECT_EQ(server.creations, 1);
}

TEST_F(ImpatientSessionTest, GivesUpARequestThatNeverEnds) {
  Establish();
  server.faults = {FakeServer::Fault::kRepeated};
  server.busy = 1000;
  const Result<void> result = Remove();
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().status, static_cast<Status>(nfsstat4::NFS4ERR_DELAY));
  EXPECT_EQ(server.removes, 1);
  server.busy = 0;
  EXPECT_TRUE(Remove());
  EXPECT_EQ(server.removes, 2);
}

TEST_F(SessionTest, ExecutesAnUncachedRequestAgainIfTheChannelRepeatsIt) {
  server.slots = 1;
  Establish();
  server.faults = {FakeServer::Fault::kRepeated};
  const Result<void> found = Lookup();
  EXPECT_TRUE(found) << found.error().message;
  EXPECT_EQ(server.lookups, 2);
  EXPECT_EQ(server.creations, 1);
}

TEST_F(SessionTest, DoesNotExecuteACachedRequestAgainIfTheChannelRepeatsIt) {
  Establish();
  server.faults = {FakeServer::Fault::kRepeated};
  EXPECT_TRUE(Remove());
  EXPECT_EQ(server.removes, 1);
  // The same holds if the server has not cached the reply, whichever operation reports it.
  server.remove_errors = {nfsstat4::NFS4ERR_RETRY_UNCACHED_REP};
  EXPECT_FALSE(Remove());
  EXPECT_EQ(server.removes, 1);
  server.keeps_replies = false;
  server.faults = {FakeServer::Fault::kRepeated};
  EXPECT_FALSE(Remove());
  EXPECT_EQ(server.removes, 2) << "only the first request was executed";
  EXPECT_TRUE(Remove());
  EXPECT_EQ(server.creations, 1);
}

// RFC 8881 §2.10.6.5: the late reply describes the state before the restart. The reclaimed state is different.
TEST_F(SessionTest, RepeatsAChangeOfStateThatTheServerHasLost) {
  Establish();
  server.faults = {FakeServer::Fault::kReplyLate, FakeServer::Fault::kReplyLate};
  Outcome closed;
  Outcome removed;
  Start(nfs4::CLOSE4args{}, closed);
  StartRemove(removed);
  server.Restart();
  EXPECT_TRUE(Lookup());
  server.late.Notify();
  TurnUntil([&] { return closed.has_value() && removed.has_value(); });
  EXPECT_TRUE(*closed);
  EXPECT_EQ(server.closes, 2);
  EXPECT_TRUE(*removed);
  EXPECT_EQ(server.removes, 1) << "REMOVE changes no state of the client";
}

TEST_F(SessionTest, ReplacesSlotsThatDisagreeWithTheServer) {
  Establish();
  // The test advances a slot without the server.
  ASSERT_TRUE(session.slots().Take());
  session.slots().HandleExecuted({0, 2});
  EXPECT_TRUE(Remove());
  EXPECT_EQ(server.destroyed, 1);
  EXPECT_EQ(server.creations, 2);
}

TEST_F(SessionTest, BindsAConnectionWhoseServerCannotCallBack) {
  Establish();
  server.status_flags = nfs4::SEQ4_STATUS_CB_PATH_DOWN_SESSION;
  EXPECT_TRUE(Remove());
  TurnUntil([&] { return server.binds == 1; });
  // The server still cannot call back. The client waits before it binds the connection again.
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(Remove());
  EXPECT_EQ(server.binds, 1);
}

TEST_F(SessionTest, CreatesAnotherSessionAfterABackChannelFault) {
  Establish();
  server.faults = {FakeServer::Fault::kReplyLate};
  Outcome late;
  StartRemove(late);
  server.status_flags = nfs4::SEQ4_STATUS_BACKCHANNEL_FAULT;
  EXPECT_TRUE(Remove());
  server.status_flags = 0;
  Outcome next;
  StartRemove(next);
  Turn(20ms);
  EXPECT_FALSE(next) << "no new request is sent";
  EXPECT_EQ(server.destroyed, 0) << "not before all requests have replies";
  server.late.Notify();
  TurnUntil([&] { return late.has_value() && next.has_value(); });
  EXPECT_TRUE(*late);
  EXPECT_TRUE(*next);
  EXPECT_EQ(server.destroyed, 1);
  EXPECT_EQ(server.creations, 2);
  EXPECT_EQ(server.removes, 3);
}

TEST_F(SessionTest, RenewsItsLease) {
  Establish();
  const int before = server.sequences;
  session.set_lease_time(20ms);  // the client renews it at most once a second
  TurnUntil([&] { return server.sequences > before; });
  EXPECT_EQ(server.removes, 0);
}

TEST_F(SessionTest, ReportsWhyTheServerRefusesASession) {
  server.create_errors = {nfsstat4::NFS4ERR_NOSPC};
  Outcome result;
  Spawn([](Session& s, Outcome& out) -> Task<void> { out = co_await s.Establish("server"); }(session, result));
  TurnUntil([&] { return result.has_value(); });
  ASSERT_FALSE(*result);
  EXPECT_EQ(result->error().status, Status::kNoSpace);
}

}  // namespace
}  // namespace penstock::client::v4
