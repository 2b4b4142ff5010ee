// Sends the input as the messages of a peer to a server over the simulated network. The run must end, every buffer must
// be released, and the server must obey the rules of the provider interface. The handles 0xfff00000 and 0xfff00001 name
// two existing regions, one to read and one to write, so that the fuzzer finds them.
#include <array>
#include <cstdlib>
#include <memory>
#include <vector>

#include "base/address.h"
#include "rdma/sim/network.h"
#include "rpcrdma/server.h"
#include "xdr/decoder.h"
#include "xdr/encoder.h"

using namespace penstock;           // NOLINT: a program of its own
using namespace penstock::rpcrdma;  // NOLINT

namespace {

void Require(bool condition) {
  if (!condition) std::abort();
}

Task<void> CallBack(std::shared_ptr<rpc::BackChannel> back) {
  xdr::Encoder encoder(back->buffers());
  encoder.U32(back->xids().Next().value());
  encoder.U32(0);
  // The peer's result does not matter.
  (void)co_await back->Call(encoder.Finish(), {.max_stream = 100, .results = {}});
}

constexpr uint32_t kBoundary = 512;

// Makes replies with the length and the payloads that the call requests.
class Handler : public rpc::CallHandler {
 public:
  explicit Handler(bool calls_back) : calls_back_(calls_back) {}

  Task<rpc::Message> HandleCall(rpc::Message call, const rpc::Peer& peer) override {
    if (calls_back_) Spawn(CallBack(peer.back_channel));
    const ConstBytes stream = call.stream.bytes();
    auto octet = [&](size_t i) { return i < stream.size() ? static_cast<size_t>(stream[i]) : 0; };
    size_t sum = 0;
    for (const xdr::Item& item : call.items) {
      for (std::byte value : item.data.bytes()) sum += static_cast<size_t>(value);
      Require(item.offset <= stream.size());
    }
    // Pads stand only before payloads. The first payload of this protocol is behind three words.
    xdr::Decoder decoder(call);
    const std::byte* words = nullptr;
    Data argument;
    if (decoder.Take(words, 12) && decoder.Payload(argument, 4096)) {
      for (std::byte value : argument.bytes()) sum += static_cast<size_t>(value);
      Require(decoder.pads() % 4 == 0 && decoder.pads() < kBoundary);
    }
    rpc::Message reply;
    if (octet(8) == 0xff) co_return reply;
    const size_t size = 8 + 4 * (octet(8) % 64) * (octet(9) % 64) + sum % 2 * 4;
    BufferRef buffer = peer.buffers->Allocate(size);
    std::fill_n(buffer->data(), size, std::byte{0});
    CopyBytes(buffer->bytes(), stream.first(4));
    reply.stream = Slice(buffer, buffer->bytes().first(size));
    for (size_t n = 0; n < octet(10) % 4; ++n) {
      const size_t length = octet(11 + n) * 20;
      BufferRef payload = peer.buffers->Allocate(length);
      std::fill_n(payload->data(), length, std::byte{1});
      reply.items.push_back({8, Data(Slice(payload, payload->bytes().first(length)))});
    }
    co_return reply;
  }

 private:
  const bool calls_back_;
};

// The peer: an endpoint with receives and memory.
struct FuzzPeer {
  std::unique_ptr<rdma::Endpoint> endpoint;
  std::vector<std::byte> readable = std::vector<std::byte>(3000, std::byte{3}), writable = std::vector<std::byte>(3000);
  std::array<std::unique_ptr<rdma::MemoryRegion>, 2> regions;

  void Drain() {
    std::array<rdma::Completion, 8> batch;
    size_t count;
    do {
      count = endpoint->Poll(batch);
      for (size_t i = 0; i < count; ++i) {
        if (batch[i].operation != rdma::Operation::kReceive || batch[i].status != rdma::Status::kSuccess) continue;
        endpoint->PostReceive({.size = 4096});
      }
    } while (count == batch.size());
  }
};

Task<void> Connect(rdma::Provider& provider, rdma::Address server, FuzzPeer& peer) {
  rdma::ConnectOptions options;
  const PrivateData own{true, 4096, 4096};
  options.private_data = own.Serialize();
  options.receives = Connection::MakeReceives(own.receive_size, 32);
  rdma::ConnectResult result = co_await provider.Connect(std::move(server), std::move(options));
  Require(result.has_value());
  peer.endpoint = *std::move(result);
}

Task<void> Stop(Server& server, bool& stopped) {
  co_await server.Stop(std::chrono::seconds(1));
  stopped = true;
}

void NameRegions(Bytes message, const FuzzPeer& peer) {
  for (size_t i = 0; i + 16 <= message.size(); i += 4) {
    const uint32_t handle = LoadBig<uint32_t>(message.data() + i) - 0xfff00000;
    if (handle >= peer.regions.size()) continue;
    const rdma::MemoryRegion& region = *peer.regions[handle];
    StoreBig(message.data() + i, region.stag().value());
    StoreBig(message.data() + i + 8, LoadBig<uint64_t>(message.data() + i + 8) + region.offset());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 4) return 0;
  ConstBytes input = std::as_bytes(std::span(data, size));
  rdma::sim::World world(data[0]);
  world.set_tracing(false);
  rdma::sim::Network network(world);
  auto server_provider = network.MakeProvider(), client_provider = network.MakeProvider();
  Handler handler(data[2] % 2);
  ServerOptions options;
  options.responder.credits = 1 + data[1] % 8;
  options.responder.max_call_octets = 4000;
  options.responder.max_pulled_octets = 6000;
  options.responder.chunks = data[2] % 8 != 0;
  options.limits.padding = data[2] & 0x10 ? kBoundary : 0;
  Server server(world, handler, options);
  auto listener = server_provider->Listen({asio::ip::address_v4::any(), 20049});
  const rdma::Address address = (*listener)->local();
  server.Start(*std::move(listener));

  {
    FuzzPeer peer;
    Spawn(Connect(*client_provider, address, peer));
    Require(world.RunUntil([&] { return peer.endpoint != nullptr; }));
    peer.regions = {peer.endpoint->Register(peer.readable, rdma::Access::kRemoteRead),
                    peer.endpoint->Register(peer.writable, rdma::Access::kRemoteWrite)};
    peer.endpoint->Start([&peer] { peer.Drain(); });
    // Each message begins with its length in two octets. The first octet also decides whether to wait after it.
    for (input = input.subspan(3); input.size() >= 2;) {
      const bool wait = (input[0] & std::byte{0x80}) != std::byte{0};
      const size_t length = std::min<size_t>(LoadBig<uint16_t>(input.data()) & 0xfff, input.size() - 2);
      BufferRef buffer = client_provider->buffers().Allocate(length);
      Bytes message = buffer->bytes().first(length);
      CopyBytes(message, input.subspan(2, length));
      NameRegions(message, peer);
      rdma::SendRequest send;
      send.gather.push_back(Slice(buffer, message));
      peer.endpoint->PostSend(std::move(send));
      if (wait) world.RunFor(std::chrono::milliseconds(1));
      input = input.subspan(2 + length);
    }
    world.RunFor(std::chrono::milliseconds(10));
  }
  bool stopped = false;
  Spawn(Stop(server, stopped));
  Require(world.RunUntil([&] { return stopped; }) && world.Run());
  Require(server_provider->buffers().outstanding() == 0);
  Require(network.violations().empty());
  return 0;
}
