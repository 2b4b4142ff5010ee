#include "rpc/gss/token_maker.h"

#include <atomic>
#include <deque>
#include <optional>
#include <thread>
#include <utility>

#include "base/test_loop.h"
#include "rpc/gss/test_gate.h"
#include "rpc/gss/test_secured_channel.h"

namespace penstock::rpc::gss {
namespace {

// A toy mechanism whose KDC answers when its gate is open.
class GatedMechanism : public testing::ToyInitiatingMechanism {
 public:
  using ToyInitiatingMechanism::ToyInitiatingMechanism;
  std::unique_ptr<InitiatingContext> Begin() override {
    return std::make_unique<GatedContext>(*this, ToyInitiatingMechanism::Begin());
  }

  // Null: the KDC answers at once. The test changes it while no token is being made.
  std::shared_ptr<Gate> gate;
  std::atomic<int> made = 0;  // tokens

 private:
  class GatedContext : public InitiatingContext {
   public:
    GatedContext(GatedMechanism& owner, std::unique_ptr<InitiatingContext> inner)
        : owner_(owner), gate_(owner.gate), inner_(std::move(inner)) {}
    Result<Step> Initiate(ConstBytes token) override {
      if (gate_) gate_->Pass();
      auto step = inner_->Initiate(token);
      ++owner_.made;
      return step;
    }
    std::optional<Duration> lifetime() const override { return inner_->lifetime(); }
    std::string initiator() const override { return inner_->initiator(); }
    Result<void> VerifyMic(ConstBytes message, ConstBytes mic) override { return inner_->VerifyMic(message, mic); }
    Result<void> GetMic(ConstBytes message, Mic& mic) override { return inner_->GetMic(message, mic); }
    Result<WrapRoom> RoomToWrap(size_t octets) override { return inner_->RoomToWrap(octets); }
    Result<void> Wrap(Bytes message, const WrapRoom& room) override { return inner_->Wrap(message, room); }
    Result<Bytes> Unwrap(Bytes message) override { return inner_->Unwrap(message); }

   private:
    GatedMechanism& owner_;
    const std::shared_ptr<Gate> gate_;
    const std::unique_ptr<InitiatingContext> inner_;
  };
};

// ---- one token ----

class TokenMakerTest : public ::testing::Test {
 protected:
  TokenMaker::Place Place() { return {.timers = loop, .loop = &loop, .threads = threads}; }
  void Begin() { maker.emplace(mechanism, mechanism->Begin(), std::vector<std::byte>(), Place()); }
  // Begins to wait; the result becomes true when the wait ends.
  std::shared_ptr<bool> Wait(Duration limit) {
    auto ended = std::make_shared<bool>(false);
    Spawn([](TokenMaker& of, TimePoint until, std::shared_ptr<bool> out) -> Task<> {
      co_await of.Wait(until);
      *out = true;
    }(*maker, loop.Now() + limit, ended));
    return ended;
  }

  std::shared_ptr<Gate> gate = std::make_shared<Gate>();
  std::shared_ptr<GatedMechanism> mechanism = std::make_shared<GatedMechanism>("alice");
  std::shared_ptr<Workers> threads = std::make_shared<Workers>(2, Workers::AtEnd::kWait);
  Loop loop;
  std::optional<TokenMaker> maker;
};

TEST_F(TokenMakerTest, AWaiterGetsTheTokenOfAKdcThatAnswersLate) {
  mechanism->gate = gate;
  Begin();
  const auto ended = Wait(kTestPatience);
  EXPECT_FALSE(*ended);
  EXPECT_FALSE(maker->is_done());
  gate->Open();
  ASSERT_TRUE(TurnUntil(loop, [&] { return *ended; }));
  ASSERT_TRUE(maker->is_done());
  EXPECT_TRUE(maker->Take().step);
}

TEST_F(TokenMakerTest, AWaiterStopsWaitingForAKdcThatHangs) {
  mechanism->gate = gate;
  Begin();
  const auto ended = Wait(10ms);
  ASSERT_TRUE(TurnUntil(loop, [&] { return *ended; }));
  EXPECT_FALSE(maker->is_done());
  gate->Open();
  ASSERT_TRUE(TurnUntil(loop, [&] { return maker->is_done(); })) << "the token is not lost";
  EXPECT_FALSE(gate->forced());
}

// A process that ends at once could otherwise finalize the mechanism's library meanwhile.
TEST_F(TokenMakerTest, TheThreadThatMadeATokenDoesNotDestroyTheMechanism) {
  for (int i = 0; i < 100; ++i) {
    std::atomic<std::thread::id> destroyed_on{};
    mechanism.reset(new GatedMechanism("alice"), [&destroyed_on](GatedMechanism* ended) {
      delete ended;
      destroyed_on = std::this_thread::get_id();
    });
    Begin();
    mechanism.reset();
    const auto ended = Wait(kTestPatience);
    ASSERT_TRUE(TurnUntil(loop, [&] { return *ended; }));
    maker.reset();
    ASSERT_TRUE(TurnUntil(loop, [&] { return destroyed_on.load() != std::thread::id(); }));
    ASSERT_EQ(destroyed_on.load(), std::this_thread::get_id());
  }
}

TEST_F(TokenMakerTest, AKdcMayAnswerAfterTheEndOfTheMakerAndItsLoop) {
  auto short_loop = std::make_unique<Loop>();
  mechanism->gate = gate;
  auto short_maker = std::make_unique<TokenMaker>(
      mechanism, mechanism->Begin(), std::vector<std::byte>(),
      TokenMaker::Place{.timers = *short_loop, .loop = short_loop.get(), .threads = threads});
  EXPECT_TRUE(TurnUntil(loop, [&] { return gate->waiting() == 1; }));
  short_maker.reset();
  short_loop.reset();
  gate->Open();
  threads->Join();
  EXPECT_EQ(mechanism->made, 1);
}

TEST_F(TokenMakerTest, ATokenThatNobodyWantsIsNotMade) {
  threads = std::make_shared<Workers>(1, Workers::AtEnd::kWait);
  mechanism->gate = gate;
  Begin();
  EXPECT_TRUE(TurnUntil(loop, [&] { return gate->waiting() == 1; }));
  std::make_unique<TokenMaker>(mechanism, mechanism->Begin(), std::vector<std::byte>(), Place()).reset();
  gate->Open();
  threads->Join();
  EXPECT_EQ(mechanism->made, 1);
}

TEST_F(TokenMakerTest, CancelEndsAWait) {
  mechanism->gate = gate;
  Begin();
  const auto ended = Wait(kTestPatience);
  EXPECT_FALSE(*ended);
  maker->Cancel();
  EXPECT_TRUE(*ended);
  EXPECT_FALSE(maker->is_done());
  gate->Open();
}

// ---- the next context of a client ----

// A clock that only the test advances.
struct StillClock : TimerService {
  struct StillTimer : Timer {
    void ExpireAfter(Duration) override {}
    void Cancel() override {}
  };
  TimePoint Now() const override { return now; }
  std::unique_ptr<Timer> MakeTimer(std::function<void()>) override { return std::make_unique<StillTimer>(); }
  std::atomic<TimePoint> now{};
};

class NextContextTest : public SecuredChannelTest {
 protected:
  NextContextTest() {
    mechanism->lifetime = 100min;
    context = std::make_shared<ClientContext>(ClientContext::Parts{.mechanism = mechanism,
                                                                   .timers = still,
                                                                   .place = {.buffers = pool, .loop = &loop},
                                                                   .token_threads = threads,
                                                                   .patience = 60s});
    channel = NewChannel();
  }
  ~NextContextTest() override {
    // They end before the loop.
    channel.reset();
    context.reset();
  }
  using Answer = std::optional<penstock::Result<uint32_t, Error>>;
  // Begins a call. The result is empty until it ends.
  const Answer& Begin() {
    Answer& answer = answers.emplace_back();
    Spawn([](NextContextTest& test, Answer& out) -> Task<void> {
      Client client(*test.channel, test.pool, test.next_xid, ClientCredential(GssService::kIntegrity));
      test.next_xid = Xid(test.next_xid.value() + 10);
      const auto reply = co_await client.Call<rpc::testing::WhoAmI>({}, {.open = 3000, .results = {}});
      if (reply) {
        out.emplace(reply->results);
      } else {
        out.emplace(std::unexpected(reply.error()));
      }
    }(*this, answer));
    return answer;
  }
  // Makes a call, which may take a while; returns whether it succeeds.
  bool AskedInTurns() {
    const Answer& answer = Begin();
    return TurnUntil(loop, [&] { return answer.has_value(); }) && *answer;
  }
  void Advance(Duration time) {
    SecuredChannelTest::Advance(time);
    still.now = still.now.load() + time;
  }

  // Waits until the thread has ended all that it has begun.
  void WaitForTheThread() {
    std::atomic<bool> ended = false;
    threads->Post([&ended] { ended = true; });
    EXPECT_TRUE(TurnUntil(loop, [&] { return ended.load(); }));
  }

  StillClock still;
  Loop loop;
  std::shared_ptr<Workers> threads = std::make_shared<Workers>(1, Workers::AtEnd::kWait);
  std::deque<Answer> answers;
  std::shared_ptr<GatedMechanism> mechanism = std::make_shared<GatedMechanism>("alice");
};

TEST_F(NextContextTest, CallsGoOnWhileTheKdcHangs) {
  ASSERT_TRUE(AskedInTurns());
  const auto gate = mechanism->gate = std::make_shared<Gate>();
  Advance(96min);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(Asked()) << "at once, under the first context";
  ASSERT_TRUE(TurnUntil(loop, [&] { return gate->waiting() == 1; })) << "one token is being made";
  EXPECT_EQ(context->made(), 1u);
  gate->Open();
  ASSERT_TRUE(TurnUntil(loop, [&] { return AskedInTurns() && context->made() == 2; }));
  EXPECT_FALSE(gate->forced());
}

TEST_F(NextContextTest, ACallWaitsForTheKdcOnlyOnceTheContextHasEnded) {
  ASSERT_TRUE(AskedInTurns());
  const auto gate = mechanism->gate = std::make_shared<Gate>();
  Advance(96min);
  EXPECT_TRUE(Asked());
  Advance(5min);
  const Answer& answer = Begin();
  EXPECT_FALSE(answer);
  gate->Open();
  ASSERT_TRUE(TurnUntil(loop, [&] { return answer.has_value(); }));
  EXPECT_TRUE(*answer);
  EXPECT_EQ(context->made(), 2u);
}

TEST_F(NextContextTest, SendsTheTokenOfASlowKdc) {
  ASSERT_TRUE(AskedInTurns());
  const auto gate = mechanism->gate = std::make_shared<Gate>();
  Advance(96min);
  EXPECT_TRUE(Asked());
  ASSERT_TRUE(TurnUntil(loop, [&] { return gate->waiting() == 1; }));
  Advance(2min);
  gate->Open();
  ASSERT_TRUE(TurnUntil(loop, [&] { return AskedInTurns() && context->made() == 2; }));
  EXPECT_EQ(mechanism->begun, 2);
}

TEST_F(NextContextTest, StopEndsACallThatWaitsForTheKdc) {
  const auto gate = mechanism->gate = std::make_shared<Gate>();
  const Answer& answer = Begin();
  EXPECT_FALSE(answer);
  context->Stop();
  ASSERT_TRUE(answer);
  ASSERT_FALSE(*answer);
  EXPECT_TRUE(IsTransport(answer->error(), CallError::kNoContext));
  gate->Open();
}

// Acceptors of Kerberos refuse a token whose time differs from their clock.
TEST_F(NextContextTest, DoesNotSendAnOldToken) {
  ASSERT_TRUE(AskedInTurns());
  const auto gate = mechanism->gate = std::make_shared<Gate>();
  Advance(96min);
  EXPECT_TRUE(Asked());
  gate->Open();
  WaitForTheThread();
  Advance(3min);
  ASSERT_TRUE(TurnUntil(loop, [&] { return AskedInTurns() && context->made() == 2; }));
  EXPECT_EQ(mechanism->begun, 3) << "two for the second context";
}

}  // namespace
}  // namespace penstock::rpc::gss
