// The conformance suite of the provider interface: what endpoint.h and provider.h promise, as tests. A provider runs it
// by linking penstock_rdma_suite and instantiating it over its own environment:
//
//   INSTANTIATE_TEST_SUITE_P(Sim, EndpointSuite, testing::Values(SuiteFactory{"sim", MakeSimEnvironment}));
//
// At the end of every test, whatever it did, both sides must have completed each posted request exactly once.
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

// What a provider brings along. Everything in it runs on one loop, driven by RunUntil and Settle.
class SuiteEnvironment {
 public:
  virtual ~SuiteEnvironment() = default;
  // Each call makes another provider; they are destroyed before the environment.
  virtual std::unique_ptr<Provider> MakeProvider() = 0;
  // Where a listener may listen; port 0 where the system chooses one.
  virtual Address ListenAddress() = 0;
  // Where nobody listens.
  virtual Address NobodyAddress() = 0;
  // How much private data a connection request or its answer can carry.
  virtual size_t max_private_data() = 0;
  // What not every provider can do. Private data arrives as it was, without zeros behind it.
  virtual bool exact_private_data() { return true; }
  // A peer's Sends wait until Start().
  virtual bool holds_back() { return true; }
  // A receive tells that its Send was solicited.
  virtual bool tells_solicited() { return true; }
  // A side serves no more Reads than it wants to, whatever the peer asks for.
  virtual bool limits_reads() { return true; }
  // Memory for Writes alone is not read (Linux' software iWARP, 6.1, does not look).
  virtual bool checks_right_to_read() { return true; }
  // Who refuses and who is refused learn that this is why the connection ends.
  virtual bool tells_refusal() { return true; }
  // The whole of a stag is chosen here (of an adapter's eight bits are): none comes again soon.
  virtual bool chooses_stags() { return true; }
  // Those who share a listener take peers in turn.
  virtual bool takes_turns() { return true; }
  virtual TimerService& timers() = 0;
  // Lets what was posted leave, where that takes a turn of the loop.
  virtual void Publish() {}
  // Runs until `done`; false if that takes unreasonably long.
  virtual bool RunUntil(const std::function<bool()>& done) = 0;
  // Runs until nothing more is to be expected of what has been started (a few milliseconds on a real loop).
  virtual void Settle() = 0;
};

struct SuiteFactory {
  std::string name;
  std::function<std::unique_ptr<SuiteEnvironment>()> make;
};
inline void PrintTo(const SuiteFactory& factory, std::ostream* out) { *out << factory.name; }

// One end of a connection, with an account of what was posted on it and what has completed.
class SuitePeer {
 public:
  // `receives` were posted with ConnectOptions, as contexts 1 to `receives`.
  explicit SuitePeer(std::unique_ptr<Endpoint> endpoint, size_t receives = 0);

  Endpoint& endpoint() { return *endpoint_; }
  // Polls in batches of `batch` whenever there is something.
  void Start(size_t batch = 16);
  // Destroys the endpoint, as a program that ends would.
  void Destroy() { endpoint_.reset(); }
  bool destroyed() const { return endpoint_ == nullptr; }

  // Each posts one request and returns its context.
  Context PostReceive(size_t size);
  Context PostReceives(size_t count, size_t size);  // the context of the first; the others follow
  Context PostSend(Gather gather, bool solicited = false, std::optional<Stag> invalidate = {});
  Context PostSend(std::string_view text);  // copies
  Context PostWrite(Gather gather, RemoteSegment remote);
  Context PostRead(Bytes local, RemoteSegment remote);
  Context PostInvalidate(MemoryRegion& region);

  // The completion of a request; null while there is none.
  const Completion* Find(Context context) const;
  bool Done(Context context) const { return Find(context) != nullptr; }
  std::optional<Status> StatusOf(Context context) const;
  std::string Text(Context context) const;  // what a receive has received

  const std::vector<Completion>& completions() const { return completions_; }
  size_t received() const;  // successful receives
  size_t outstanding() const { return posted_.size() - answered_; }
  const Completion* disconnected() const;
  DisconnectReason reason() const;
  size_t calls() const { return calls_; }  // of on_completions

 private:
  Context Account(Operation operation);
  void Take(Completion completion);

  std::unique_ptr<Endpoint> endpoint_;
  std::map<Context, std::pair<Operation, std::optional<size_t>>> posted_;  // and the index of its completion
  std::vector<Completion> completions_;
  size_t answered_ = 0;
  size_t calls_ = 0;
  Context next_context_ = 1;
  bool in_call_ = false;
  bool polling_ = false;

  // True while the test is inside a call to the endpoint: on_completions must not come then.
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

  // What a coroutine has returned, once it has.
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
  static std::vector<PostedReceive> Receives(Provider& provider, size_t count, size_t size);
  // The pair that most tests use: client_ and server_, both started.
  void Connect(ConnectOptions client = {}, ConnectOptions server = {});

  // Memory of `peer` that the other may reach when this returns.
  std::unique_ptr<MemoryRegion> Register(SuitePeer& peer, Bytes memory, Access access);
  template <std::invocable Done>
  void RunUntil(Done done) {
    EXPECT_TRUE(env_->RunUntil(done)) << "what the test waits for has not happened";
  }
  void RunUntilDone(SuitePeer& peer, Context request) {
    RunUntil([&] { return peer.Done(request); });
  }
  // Waits until both sides of a pair are disconnected.
  void RunUntilLost(SuitePeer& a, SuitePeer& b);
  // What has arrived as private data is what was sent.
  void ExpectPrivateData(ConstBytes arrived, ConstBytes sent);
  // `request` of `initiator` was one that `target` must refuse: checks what both see of it.
  void ExpectRefused(SuitePeer& initiator, SuitePeer& target, Context request);
  // Registers the server's memory for Writes, then for Reads, and lets `spoil` make of its segment, or of the
  // connection, something that the client may not reach: it must be refused, and the memory stay as it is.
  struct AccessTrial;
  void ExpectAccessRefused(const std::function<RemoteSegment(AccessTrial&)>& spoil,
                           const std::vector<Access>& accesses = {Access::kRemoteWrite, Access::kRemoteRead});
  // Closes in order if still connected, and checks that nothing posted was forgotten or completed twice.
  void Finish(SuitePeer& client, SuitePeer& server);

  // `size` octets that differ from their neighbours; another `seed` gives others.
  static std::vector<std::byte> Pattern(size_t size, unsigned seed = 0);

  struct AccessTrial {
    Pair pair;
    Access access = Access::kRemoteRead;
    std::vector<std::byte> memory;  // of the server; its middle is registered
    std::unique_ptr<MemoryRegion> region;
    RemoteSegment whole;  // the region's
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
