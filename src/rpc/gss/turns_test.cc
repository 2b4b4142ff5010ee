// Several calls use one context at once, on a loop and on the threads of a pool.
#include <atomic>
#include <vector>

#include "base/loop.h"
#include "base/test_loop.h"
#include "rpc/gss/strand.h"
#include "rpc/gss/test_acceptor.h"
#include "rpc/gss/test_gate.h"

namespace penstock::rpc::gss {
namespace {

using namespace std::chrono_literals;

// A toy mechanism that waits at a gate while it checks a long message. It detects concurrent use of a context.
class HeldMechanism : public testing::ToyMechanism {
 public:
  std::unique_ptr<MechanismContext> Begin() override {
    return std::make_unique<HeldContext>(*this, ToyMechanism::Begin());
  }

  Gate gate;
  std::atomic<bool> shared = false;  // two threads have used one context at once

 private:
  class HeldContext : public MechanismContext {
   public:
    HeldContext(HeldMechanism& owner, std::unique_ptr<MechanismContext> inner)
        : owner_(owner), inner_(std::move(inner)) {}

    Result<Step> Accept(ConstBytes token) override { return inner_->Accept(token); }
    Result<gss::Initiator> GetInitiator() override { return inner_->GetInitiator(); }
    Result<void> VerifyMic(ConstBytes message, ConstBytes mic) override {
      const Use use(*this);
      if (message.size() >= 30'000) owner_.gate.Pass();
      return inner_->VerifyMic(message, mic);
    }
    Result<void> GetMic(ConstBytes message, Mic& mic) override {
      const Use use(*this);
      return inner_->GetMic(message, mic);
    }
    Result<WrapRoom> RoomToWrap(size_t size) override { return inner_->RoomToWrap(size); }
    Result<void> Wrap(Bytes message, const WrapRoom& room) override {
      const Use use(*this);
      return inner_->Wrap(message, room);
    }
    Result<Bytes> Unwrap(Bytes message) override { return inner_->Unwrap(message); }

   private:
    struct Use {
      explicit Use(HeldContext& of) : context(of) {
        if (context.users_.fetch_add(1) > 0) context.owner_.shared = true;
      }
      ~Use() { context.users_.fetch_sub(1); }
      HeldContext& context;
    };
    HeldMechanism& owner_;
    const std::unique_ptr<MechanismContext> inner_;
    std::atomic<int> users_ = 0;
  };
};

class TurnsTest : public FlavorTest {
 protected:
  TurnsTest() : TurnsTest(std::make_unique<Workers>(2)) {}
  ~TurnsTest() override {
    mechanism.gate.Open();
    workers->Join();
  }

  void Establish(testing::Initiator& client) {
    while (!client.established()) {
      std::optional<Message> reply;
      Start(client.Create(Xid(5), To(0)), reply);
      ASSERT_TRUE(TurnUntil(loop, [&] { return reply.has_value(); }));
      ASSERT_TRUE(client.HandleCreated(*reply));
    }
  }
  // Calls under integrity. Stores the reply in `reply`.
  void StartCall(testing::Initiator& client, uint32_t procedure, const Message& arguments, uint32_t number,
                 std::optional<Message>& reply) {
    Start(client.Call(Xid(number), To(procedure), GssService::kIntegrity, number, arguments), reply);
  }
  Message LongText() {
    xdr::Encoder encoder(pool);
    encoder.Opaque(std::vector<std::byte>(60'000));
    return encoder.Finish();
  }

  std::unique_ptr<Workers> workers;
  Loop loop;
  HeldMechanism& mechanism = static_cast<HeldMechanism&>(*mechanism_);
  testing::ToyInitiator toy_alice{"alice"};
  testing::Initiator alice{toy_alice, pool};
  testing::ToyInitiator toy_bob{"bob"};
  testing::Initiator bob{toy_bob, pool};

 private:
  explicit TurnsTest(std::unique_ptr<Workers> threads)
      : FlavorTest(std::make_shared<HeldMechanism>(), threads.get()), workers(std::move(threads)) {
    peer.loop = &loop;
  }
};

TEST_F(TurnsTest, LoopServesOthersWhileAContextIsInUse) {
  Establish(alice);
  Establish(bob);
  std::optional<Message> held, behind, other;
  StartCall(alice, rpc::testing::Echo::kNumber, LongText(), 1, held);
  ASSERT_TRUE(TurnUntil(loop, [&] { return mechanism.gate.waiting() == 1; }));
  StartCall(alice, rpc::testing::Null::kNumber, Message(), 2, behind);
  StartCall(bob, rpc::testing::Null::kNumber, Message(), 1, other);
  ASSERT_TRUE(TurnUntil(loop, [&] { return other.has_value(); }));
  EXPECT_TRUE(bob.Open(*other, GssService::kIntegrity, 1));
  EXPECT_EQ(mechanism.gate.waiting(), 1) << "the loop must not wait for alice's context";
  EXPECT_FALSE(behind);
  mechanism.gate.Open();
  ASSERT_TRUE(TurnUntil(loop, [&] { return held && behind; }));
  EXPECT_TRUE(alice.Open(*held, GssService::kIntegrity, 1));
  EXPECT_TRUE(alice.Open(*behind, GssService::kIntegrity, 2));
}

// Calls of one context occupy at most one thread, however many there are.
TEST_F(TurnsTest, CallsThatWaitForTheirContextOccupyNoThreads) {
  Establish(alice);
  std::vector<std::optional<Message>> replies(8);
  for (uint32_t i = 0; i < replies.size(); ++i) {
    StartCall(alice, rpc::testing::Echo::kNumber, LongText(), i + 1, replies[i]);
  }
  ASSERT_TRUE(TurnUntil(loop, [&] { return mechanism.gate.waiting() == 1; }));
  std::atomic<bool> ran = false;
  workers->Post([&] { ran = true; }, ClientKey{.host = 1, .connection = 1});  // another client
  ASSERT_TRUE(TurnUntil(loop, [&] { return ran.load(); }));
  EXPECT_EQ(mechanism.gate.waiting(), 1);
  EXPECT_FALSE(mechanism.gate.forced()) << "both threads waited for alice's context";
  mechanism.gate.Open();
  ASSERT_TRUE(TurnUntil(loop, [&] { return std::ranges::all_of(replies, [](auto& r) { return r.has_value(); }); }));
  for (uint32_t i = 0; i < replies.size(); ++i) EXPECT_TRUE(alice.Open(*replies[i], GssService::kIntegrity, i + 1));
  EXPECT_FALSE(mechanism.shared);
}

TEST(Strand, RunsFunctionsInOrderOneAtATime) {
  Workers workers(4);
  Strand strand;
  std::atomic<int> running = 0;
  std::vector<int> order;
  bool alone = true;
  ASSERT_TRUE(strand.TryEnter());
  EXPECT_FALSE(strand.TryEnter());
  for (int i = 0; i < 100; ++i) {
    strand.Post(workers, [&, i] {
      alone = alone && running.fetch_add(1) == 0;
      order.push_back(i);
      running.fetch_sub(1);
    });
  }
  EXPECT_TRUE(order.empty());
  strand.Leave(&workers);
  workers.Join();
  EXPECT_TRUE(alone);
  ASSERT_EQ(order.size(), 100u);
  EXPECT_TRUE(std::ranges::is_sorted(order));
  EXPECT_TRUE(strand.TryEnter());
}

}  // namespace
}  // namespace penstock::rpc::gss
