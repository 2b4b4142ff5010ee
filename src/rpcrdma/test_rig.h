// A server and a client in a simulated network. They use a small test protocol that exercises every feature of the
// transport.
//
// A call carries payloads and requests a reply of a certain shape; a reply carries payloads. The octets of all payloads
// follow from the XID, so that both sides detect misplaced octets:
//
//   call:  xid, 0, size of the filler in the reply, lengths of the results<>, filler<>, arguments<> (payloads)
//   reply: xid, 1, filler<>, results<> (payloads)
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/address.h"
#include "rdma/sim/network.h"
#include "rpc/call_order.h"
#include "rpcrdma/client.h"
#include "rpcrdma/server.h"
#include "rpcrdma/test_bytes.h"
#include "xdr/decoder.h"
#include "xdr/encoder.h"

namespace penstock::rpcrdma {

struct TestCall {
  uint32_t xid = 1;
  size_t filler = 0;                   // octets of filler in the stream of the call
  std::vector<size_t> arguments = {};  // lengths of the payloads in the call
  size_t reply_filler = 0;
  std::vector<size_t> results = {};  // lengths of the payloads in the reply
};

inline ByteVector ArgumentOctets(uint32_t xid, size_t n, size_t length) {
  return Pattern(length, xid * 64 + static_cast<unsigned>(n) + 1);
}
inline ByteVector ResultOctets(uint32_t xid, size_t n, size_t length) {
  return Pattern(length, xid * 64 + static_cast<unsigned>(n) + 33);
}

// Copies `octets` into a new buffer.
inline Slice Owned(BufferPool& buffers, ConstBytes octets) {
  BufferRef buffer = buffers.Allocate(octets.size());
  CopyBytes(buffer->bytes(), octets);
  ConstBytes bytes = buffer->bytes().first(octets.size());
  return Slice(std::move(buffer), bytes);
}

inline rpc::Message EncodeCall(BufferPool& buffers, const TestCall& call) {
  xdr::Encoder encoder(buffers);
  encoder.U32(call.xid);
  encoder.U32(0);
  encoder.U32(static_cast<uint32_t>(call.reply_filler));
  encoder.U32(static_cast<uint32_t>(call.results.size()));
  for (size_t length : call.results) encoder.U32(static_cast<uint32_t>(length));
  encoder.Opaque(Pattern(call.filler, call.xid));
  encoder.U32(static_cast<uint32_t>(call.arguments.size()));
  for (size_t n = 0; n < call.arguments.size(); ++n) {
    encoder.Payload(Owned(buffers, ArgumentOctets(call.xid, n, call.arguments[n])));
  }
  return encoder.Finish();
}

// The size of the reply's stream, without payloads.
inline size_t ReplyStreamSize(const TestCall& call) {
  return 16 + RoundUp(call.reply_filler, 4) + 4 * call.results.size();
}

inline bool SameOctets(const Data& data, ConstBytes octets) { return !data.is_file() && Equal(data.bytes(), octets); }

// Executes the calls of the test protocol, each after a delay.
class TestHandler : public rpc::CallHandler {
 public:
  explicit TestHandler(rdma::sim::World& world) : world_(world) {}

  Task<rpc::Message> HandleCall(rpc::Message call, const rpc::Peer& peer) override {
    back_channel_ = peer.back_channel;
    arrived_at_start_.clear();
    for (const xdr::Item& item : call.items) arrived_at_start_.push_back(item.data.arrived());
    if (hasty_) co_return Whole(LoadBig<uint32_t>(call.stream.data()), *peer.buffers);
    for (const xdr::Item& item : call.items) {
      const bool arrived = co_await item.data.AllArrived();
      if (!arrived) {
        ++lost_payloads_;
        co_return rpc::Message();
      }
    }
    ++running_;
    most_running_ = std::max(most_running_, running_);
    const Duration delay = max_delay_ > Duration::zero() ? world_.random().UpTo(max_delay_) : delay_;
    if (delay > Duration::zero()) {
      OneShot<> later;
      world_.Schedule(delay, [&later] { later.Set(); });
      co_await later;
    }
    if (in_order_ && peer.order) {
      const rpc::Xid xid(LoadBig<uint32_t>(call.stream.data()));
      co_await peer.order->WaitForEarlier(xid, 0);
    }
    --running_;
    ++calls_;
    xids_.push_back(call.stream.size() >= 4 ? LoadBig<uint32_t>(call.stream.data()) : 0);
    if (on_call_) on_call_(rpc::Xid(xids_.back()), peer);
    rpc::Message reply = Execute(call, *peer.buffers);
    if (file_) reply.items.push_back({.offset = reply.stream.size(), .data = Data(file_, 0, file_octets_)});
    co_return reply;
  }

  void PreviewCall(const rpc::Message& call, const rpc::Peer& /*peer*/) override {
    Preview& preview = previews_.emplace_back();
    preview.xid = LoadBig<uint32_t>(call.stream.data());
    for (const xdr::Item& item : call.items) preview.payloads.push_back(item.data.size());
    preview.calls_before = calls_;
  }

  // Each call gets a random delay up to `delay`.
  void set_max_delay(Duration delay) { max_delay_ = delay; }
  // The delay of all calls, unless set_max_delay() was called.
  void set_delay(Duration delay) { delay_ = delay; }
  // Each call waits until the calls that were received before it are in order.
  void set_in_order(bool in_order) { in_order_ = in_order; }
  // Calls get an empty reply at once, even if their payloads are still arriving.
  void set_hasty(bool hasty) { hasty_ = hasty; }
  // How much of each payload of the last call had arrived when it came to the handler.
  const std::vector<size_t>& arrived_at_start() const { return arrived_at_start_; }
  // The calls whose payload never arrived as a whole.
  size_t lost_payloads() const { return lost_payloads_; }
  // Calls get no reply.
  void set_drop(bool drop) { drop_ = drop; }
  // Each reply carries a payload: the first `octets` octets of `file`.
  void set_file(std::shared_ptr<const FileDescriptor> file, size_t octets) {
    file_ = std::move(file);
    file_octets_ = octets;
  }
  // Calls `on_call` during the execution of each call.
  void set_on_call(std::function<void(rpc::Xid, const rpc::Peer&)> on_call) { on_call_ = std::move(on_call); }
  // The back channel to the last caller.
  const std::shared_ptr<rpc::BackChannel>& back_channel() const { return back_channel_; }
  size_t calls() const { return calls_; }
  // A call that was shown before its payloads had arrived: their lengths, and how many calls were executed before.
  struct Preview {
    uint32_t xid = 0;
    std::vector<size_t> payloads;
    size_t calls_before = 0;
    bool operator==(const Preview&) const = default;
  };
  const std::vector<Preview>& previews() const { return previews_; }
  const std::vector<uint32_t>& xids() const { return xids_; }
  size_t faults() const { return faults_; }  // calls that did not arrive as sent
  size_t TakeFaults() { return std::exchange(faults_, 0); }
  // Where the payloads of the calls were in their buffers.
  const std::vector<size_t>& argument_offsets() const { return argument_offsets_; }
  size_t running() const { return running_; }
  size_t most_running() const { return most_running_; }

 private:
  // A reply without results.
  static rpc::Message Whole(uint32_t xid, BufferPool& buffers) {
    xdr::Encoder encoder(buffers);
    for (const uint32_t word : {xid, 1u, 0u, 0u}) encoder.U32(word);
    return encoder.Finish();
  }
  rpc::Message Execute(const rpc::Message& call, BufferPool& buffers) {
    if (drop_) return {};
    xdr::Decoder decoder(call);
    uint32_t xid = 0, type = 0, reply_filler = 0, count = 0;
    std::vector<uint32_t> lengths;
    bool good = decoder.U32(xid) && decoder.U32(type) && decoder.U32(reply_filler) && decoder.U32(count) && count <= 64;
    for (uint32_t n = 0; good && n < count; ++n) good = decoder.U32(lengths.emplace_back());
    ConstBytes filler;
    good = good && type == 0 && decoder.Opaque(filler, 1 << 24) && decoder.U32(count);
    if (good) good = Equal(filler, Pattern(filler.size(), xid));
    for (uint32_t n = 0; good && n < count; ++n) {
      Data data;
      good = decoder.Payload(data, 1 << 24) && SameOctets(data, ArgumentOctets(xid, n, data.size()));
      if (good && data.memory().owner()) {
        argument_offsets_.push_back(static_cast<size_t>(data.bytes().data() - data.memory().owner()->data()));
      }
    }
    if (!good || !decoder.Finish()) {
      ++faults_;
      lengths.clear();
      reply_filler = 0;
    }
    xdr::Encoder encoder(buffers);
    encoder.U32(xid);
    encoder.U32(1);
    encoder.Opaque(Pattern(std::min(reply_filler, 1u << 24), xid));
    encoder.U32(static_cast<uint32_t>(lengths.size()));
    for (size_t n = 0; n < lengths.size(); ++n) {
      encoder.Payload(Owned(buffers, ResultOctets(xid, n, std::min(lengths[n], 1u << 24))));
    }
    return encoder.Finish();
  }

  rdma::sim::World& world_;
  Duration max_delay_ = Duration::zero();
  Duration delay_ = Duration::zero();
  bool in_order_ = false;
  bool drop_ = false;
  bool hasty_ = false;
  std::vector<size_t> arrived_at_start_;
  size_t lost_payloads_ = 0;
  std::function<void(rpc::Xid, const rpc::Peer&)> on_call_;
  std::shared_ptr<const FileDescriptor> file_;
  size_t file_octets_ = 0;
  std::shared_ptr<rpc::BackChannel> back_channel_;
  size_t calls_ = 0;
  std::vector<uint32_t> xids_;
  std::vector<Preview> previews_;
  std::vector<size_t> argument_offsets_;
  size_t faults_ = 0;
  size_t running_ = 0;
  size_t most_running_ = 0;
};

// Checks that `reply` is the reply of TestHandler to `call`. `reply` knows where its results are; this function does
// not check that they are in the memory that the caller has requested.
inline testing::AssertionResult IsReplyTo(const TestCall& call, const rpc::Message& reply) {
  xdr::Decoder decoder(reply);
  uint32_t xid, type, count;
  ConstBytes filler;
  if (!decoder.U32(xid) || !decoder.U32(type) || !decoder.Opaque(filler, 1 << 24) || !decoder.U32(count)) {
    return testing::AssertionFailure() << xdr::ErrorName(decoder.error());
  }
  if (xid != call.xid || type != 1) return testing::AssertionFailure() << "xid " << xid << " type " << type;
  if (!Equal(filler, Pattern(call.reply_filler, xid)))
    return testing::AssertionFailure() << "filler of " << filler.size();
  if (count != call.results.size()) return testing::AssertionFailure() << count << " results";
  for (uint32_t n = 0; n < count; ++n) {
    Data data;
    if (!decoder.Payload(data, 1 << 24))
      return testing::AssertionFailure() << n << ": " << xdr::ErrorName(decoder.error());
    if (!SameOctets(data, ResultOctets(xid, n, call.results[n]))) {
      return testing::AssertionFailure() << "result " << n << " of " << data.size() << " octets differs";
    }
  }
  if (!decoder.Finish()) return testing::AssertionFailure() << xdr::ErrorName(decoder.error());
  return testing::AssertionSuccess();
}

// The outcome of a call. Empty until the call has ended.
using CallResult = std::optional<Result<rpc::Message, rpc::CallError>>;

// Stores the outcome of `task` in `result`.
inline Task<void> Store(Task<Result<rpc::Message, rpc::CallError>> task, CallResult& result) {
  Result<rpc::Message, rpc::CallError> value = co_await std::move(task);
  result.emplace(std::move(value));
}

// Takes all completions of `endpoint`, calls `handle(completion, octets)` for each message received, and posts a
// receive in its place. Returns true if the end of the connection was among the completions.
template <class Handle>
bool TakeMessages(rdma::Endpoint& endpoint, Handle handle) {
  bool disconnected = false;
  std::array<rdma::Completion, 4> batch;
  size_t count;
  do {
    count = endpoint.Poll(batch);
    for (rdma::Completion& completion : std::span(batch).first(count)) {
      if (completion.operation == rdma::Operation::kDisconnected) disconnected = true;
      if (completion.operation != rdma::Operation::kReceive || completion.status != rdma::Status::kSuccess) continue;
      const ConstBytes bytes = completion.buffer->bytes().first(completion.length);
      handle(completion, ByteVector(bytes.begin(), bytes.end()));
      endpoint.PostReceive({.size = 4096});
    }
  } while (count == batch.size());
  return disconnected;
}

// A simulated network with a server and a client.
struct Rig {
  explicit Rig(uint64_t seed = 1, rdma::sim::Options options = {}) : world(seed), network(world, options) {}
  ~Rig() {
    EXPECT_TRUE(network.violations().empty()) << network.violations().front();
    EXPECT_EQ(handler.faults(), 0u);
  }
  Rig(const Rig&) = delete;

  void StartServer() {
    server.emplace(world, handler, server_options);
    SetupResult<std::unique_ptr<rdma::Listener>> listener =
        server_provider->Listen({asio::ip::address_v4::any(), 20049});
    ASSERT_TRUE(listener) << listener.error().message;
    address = (*listener)->local();
    server->Start(*std::move(listener));
  }
  // Connects a client to the server. Returns false if the connection fails; the reason is then in `error`.
  bool Connect() {
    bool done = false;
    Spawn(ConnectTask(done));
    EXPECT_TRUE(world.RunUntil([&] { return done; }));
    return client != nullptr;
  }
  void Start() {
    StartServer();
    ASSERT_TRUE(Connect());
  }

  rpc::ReplyShape ShapeOf(const TestCall& call) {
    rpc::ReplyShape shape;
    shape.max_stream = ReplyStreamSize(call);
    for (size_t length : call.results) shape.results.push_back({length, {}});
    return shape;
  }
  void Begin(const TestCall& call, CallResult& result) {
    Spawn(Store(client->Call(EncodeCall(client_provider->buffers(), call), ShapeOf(call)), result));
  }
  Result<rpc::Message, rpc::CallError> Call(const TestCall& call) {
    CallResult result;
    Begin(call, result);
    EXPECT_TRUE(world.RunUntil([&] { return result.has_value(); })) << "the call did not end";
    if (!result) return std::unexpected(rpc::CallError::kMalformed);
    return *std::move(result);
  }
  testing::AssertionResult CallAndCheck(const TestCall& call) {
    Result<rpc::Message, rpc::CallError> reply = Call(call);
    if (!reply) return testing::AssertionFailure() << "error " << static_cast<int>(reply.error());
    return IsReplyTo(call, *reply);
  }
  // Stops the client and the server. The test fails if a buffer is still in use.
  void Finish() {
    client.reset();
    bool stopped = !server;
    if (server) Spawn(StopTask(stopped));
    EXPECT_TRUE(world.RunUntil([&] { return stopped; }));
    EXPECT_TRUE(world.Run());
    server.reset();
    EXPECT_EQ(client_provider->buffers().outstanding(), 0u);
    EXPECT_EQ(server_provider->buffers().outstanding(), 0u);
  }

  rdma::sim::World world;
  rdma::sim::Network network;
  std::unique_ptr<rdma::Provider> server_provider = network.MakeProvider();
  std::unique_ptr<rdma::Provider> client_provider = network.MakeProvider();
  TestHandler handler{world};
  ServerOptions server_options;
  ClientOptions client_options;
  std::optional<Server> server;
  rdma::Address address;
  std::unique_ptr<Client> client;
  std::optional<rdma::ConnectError> error;  // the error of the last failed Connect()

 private:
  Task<void> ConnectTask(bool& done) {
    auto connected = co_await rpcrdma::Connect(*client_provider, address, client_options, world);
    if (connected) {
      client = *std::move(connected);
    } else {
      error = std::move(connected).error();
    }
    done = true;
  }
  Task<void> StopTask(bool& stopped) {
    co_await server->Stop(std::chrono::seconds(1));
    stopped = true;
  }
};

}  // namespace penstock::rpcrdma
