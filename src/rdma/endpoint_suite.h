// The conformance suite of the provider interface: tests of the rules in endpoint.h and provider.h. A provider runs the
// suite by linking penstock_rdma_suite and instantiating it over its own environment:
//
//   INSTANTIATE_TEST_SUITE_P(Sim, EndpointSuite, testing::Values(SuiteFactory{"sim", MakeSimEnvironment}));
//
// At the end of each test the suite checks that both sides have completed each posted request exactly once.
#pragma once

#include <gtest/gtest.h>

#include <concepts>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "base/timer.h"
#include "rdma/provider.h"

namespace penstock::rdma {

// Gathers of one piece.
inline Data Borrowed(ConstBytes bytes) { return Slice::Borrowed(bytes); }
inline Gather One(Data data) {
  Gather gather;
  gather.push_back(std::move(data));
  return gather;
}
inline Gather One(ConstBytes bytes) { return One(Borrowed(bytes)); }

// The part of the suite that depends on the provider. All of it runs on one loop, which RunUntil() and Settle() drive.
class SuiteEnvironment {
 public:
  virtual ~SuiteEnvironment() = default;
  // Makes a new provider at each call. The suite destroys the providers before the environment.
  virtual std::unique_ptr<Provider> MakeProvider() = 0;
  // An address on which a listener can listen. Port 0 lets the system choose a port.
  virtual Address ListenAddress() = 0;
  // An address on which no listener listens.
  virtual Address UnusedAddress() = 0;
  // The number of octets of private data that both a connection request and its answer can carry.
  virtual size_t max_private_data() = 0;

  // Not every provider has the following abilities. Private data arrives without zeros appended.
  virtual bool exact_private_data() { return true; }
  // Sends of the peer wait until Start().
  virtual bool holds_back() { return true; }
  // A receive reports whether its Send was solicited.
  virtual bool tells_solicited() { return true; }
  // A side never serves more Reads than its IRD, even if the peer asks for more.
  virtual bool limits_reads() { return true; }
  // A Read of memory that is registered for Writes is refused. (The software iWARP of Linux 6.1 does not check this.)
  virtual bool checks_right_to_read() { return true; }
  // Both sides learn that the connection ends because of a refused access.
  virtual bool tells_refusal() { return true; }
  // The provider chooses all bits of a stag, so that no stag is used again soon. (With an adapter it chooses eight
  // bits.)
  virtual bool chooses_stags() { return true; }
  // Listeners that share an address take peers in turn.
  virtual bool takes_turns() { return true; }

  virtual TimerService& timers() = 0;
  // Lets posted requests leave, if that takes a turn of the loop.
  virtual void Publish() {}
  // Runs the loop until `done` returns true. Returns false if that takes unreasonably long.
  virtual bool RunUntil(const std::function<bool()>& done) = 0;
  // Runs the loop until no further events are expected (on a real loop for a few milliseconds).
  virtual void Settle() = 0;
};

struct SuiteFactory {
  std::string name;
  std::function<std::unique_ptr<SuiteEnvironment>()> make;
};
inline void PrintTo(const SuiteFactory& factory, std::ostream* out) { *out << factory.name; }

// One end of a connection. It records the posted requests and their completions, and checks that they match.
class SuitePeer {
 public:
  // `receives` is the number of receives in ConnectOptions. Their contexts are 1 to `receives`.
  explicit SuitePeer(std::unique_ptr<Endpoint> endpoint, size_t receives = 0);

  Endpoint& endpoint() { return *endpoint_; }
  // Starts the endpoint and polls in batches of `batch` whenever it is notified.
  void Start(size_t batch = 16);
  // Destroys the endpoint, as the end of its program does.
  void Destroy() { endpoint_.reset(); }
  bool destroyed() const { return endpoint_ == nullptr; }

  // Each of these functions posts one request and returns its context.
  Context PostReceive(size_t size);
  Context PostReceives(size_t count, size_t size);  // returns the first context; the others follow it
  Context PostSend(Gather gather, bool solicited = false, std::optional<Stag> invalidate = {});
  Context PostSend(std::string_view text);  // copies
  Context PostWrite(Gather gather, RemoteSegment remote);
  Context PostRead(Bytes local, RemoteSegment remote);
  Context PostInvalidate(MemoryRegion& region);

  // Returns the completion of a request, or null if it has not completed.
  const Completion* Find(Context context) const;
  bool Done(Context context) const { return Find(context) != nullptr; }
  std::optional<Status> StatusOf(Context context) const;
  std::string Text(Context context) const;  // the message of a completed receive

  const std::vector<Completion>& completions() const { return completions_; }
  size_t received() const;  // successful receives
  size_t outstanding() const { return posted_.size() - answered_; }
  const Completion* disconnected() const;
  DisconnectReason reason() const;
  size_t calls() const { return calls_; }  // the calls of on_completions

 private:
  Context Account(Operation operation);
  void Take(Completion completion);

  std::unique_ptr<Endpoint> endpoint_;
  std::map<Context, std::pair<Operation, std::optional<size_t>>> posted_;  // the number is the index of the completion
  std::vector<Completion> completions_;
  size_t answered_ = 0;
  size_t calls_ = 0;
  Context next_context_ = 1;
  bool in_call_ = false;
  bool polling_ = false;

  // Marks the time of a call to the endpoint: on_completions must not run during it.
  template <class Call>
  void Guarded(Call call) {
    in_call_ = true;
    call(*endpoint_);
    in_call_ = false;
  }
};

class EndpointSuite : public testing::TestWithParam<SuiteFactory> {
 protected:
  void SetUp() override;
  void TearDown() override;

  // The result of a coroutine. Empty until the coroutine returns.
  template <class T>
  using Pending = std::shared_ptr<std::optional<T>>;

  template <class T>
  static Pending<T> Begin(Task<T> task) {
    auto pending = std::make_shared<std::optional<T>>();
    Spawn(Store(std::move(task), pending));
    return pending;
  }
  template <class T>
  T Await(Pending<T> pending) {
    if (!env_->RunUntil([&] { return pending->has_value(); })) throw std::runtime_error("a task has not finished");
    return std::move(**pending);
  }
  template <class T>
  T Await(Task<T> task) {
    return Await(Begin(std::move(task)));
  }

  // A connected pair over listener_.
  struct Pair {
    std::unique_ptr<SuitePeer> client, server;
  };
  Pair MakePair(ConnectOptions client = {}, ConnectOptions server = {});
  // Receives for ConnectOptions; their contexts are 1 to `count`.
  static std::vector<ReceiveRequest> Receives(size_t count, size_t size);
  // Makes the pair that most tests use, client_ and server_, and starts both.
  void Connect(ConnectOptions client = {}, ConnectOptions server = {});

  // Registers memory of `peer`. The other side can access it when this function returns.
  std::unique_ptr<MemoryRegion> Register(SuitePeer& peer, Bytes memory, Access access);
  template <std::invocable Done>
  void RunUntil(Done done) {
    EXPECT_TRUE(env_->RunUntil(done)) << "the awaited condition has not become true";
  }
  void RunUntilDone(SuitePeer& peer, Context request) {
    RunUntil([&] { return peer.Done(request); });
  }
  // Waits until both sides of a pair are disconnected.
  void RunUntilLost(SuitePeer& a, SuitePeer& b);
  // Checks that the private data that has arrived is the data that was sent.
  void ExpectPrivateData(ConstBytes arrived, ConstBytes sent);
  // Checks that `target` refuses `request` of `initiator`, and that both sides report it.
  void ExpectRefused(SuitePeer& initiator, SuitePeer& target, Context request);
  // Registers memory of the server for Writes, then for Reads. `spoil` returns a segment that the client may not
  // access, or changes the region or the connection to that effect. Checks that the access is refused and the memory
  // unchanged.
  struct AccessTrial;
  void ExpectAccessRefused(const std::function<RemoteSegment(AccessTrial&)>& spoil,
                           const std::vector<Access>& accesses = {Access::kRemoteWrite, Access::kRemoteRead});
  // Disconnects if still connected, and checks that each posted request has completed once.
  void Finish(SuitePeer& client, SuitePeer& server);

  // `size` pseudo-random octets that depend on `seed`.
  static std::vector<std::byte> Pattern(size_t size, unsigned seed = 0);

  struct AccessTrial {
    Pair pair;
    Access access = Access::kRemoteRead;
    std::vector<std::byte> memory;         // memory of the server
    std::unique_ptr<MemoryRegion> region;  // the middle third of `memory`
    RemoteSegment whole;                   // the whole region
  };

  std::unique_ptr<SuiteEnvironment> env_;
  std::unique_ptr<Provider> server_provider_, client_provider_;
  std::unique_ptr<Listener> listener_;
  std::unique_ptr<SuitePeer> client_, server_;

 private:
  template <class T>
  static Task<void> Store(Task<T> task, Pending<T> pending) {
    T value = co_await std::move(task);
    pending->emplace(std::move(value));
  }
};

}  // namespace penstock::rdma
