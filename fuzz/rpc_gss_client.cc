// The client's side of RPCSEC_GSS, over a toy mechanism: a real acceptor answers, and the input changes its replies in
// transit. A call that succeeds with a seal must have the server's results. Each call must end, whatever the replies
// are.
#include <algorithm>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>

#include "input.h"
#include "rpc/client.h"
#include "rpc/dispatch.h"
#include "rpc/gss/acceptor.h"
#include "rpc/gss/hasty_clock.h"
#include "rpc/gss/secured_channel.h"
#include "rpc/gss/test_mechanism.h"
#include "rpc/test_program.h"

namespace {

using namespace penstock;  // NOLINT: a program of its own
using fuzz::Input;
using rpc::gss::testing::Octets;

void Require(bool condition) {
  if (!condition) std::abort();
}

class World {
 public:
  World(BufferPool& pool, Input& input) : pool_(pool), input_(input) {
    peer_.buffers = &pool;
    peer_.address = {asio::ip::address_v4(0xc000'0201), 700};
    dispatcher_.Add(program_);
    dispatcher_.Offer(acceptor_);
  }
  ~World() { program_.Release(); }

  void Step() {
    const uint8_t what = input_.Octet();
    switch (what % 8) {
      case 0:
        server_.legs = client_->legs = 1 + input_.Octet() % 3;
        server_.lifetime = std::chrono::seconds(input_.Octet());
        client_->lifetime = std::chrono::seconds(input_.Octet());
        return;
      case 1:
        clock_.now += std::chrono::seconds(input_.Octet());
        return;
      case 2:
        honest_ = !honest_;
        return;
      default:
        return Echo(static_cast<rpc::GssService>(1 + what / 8 % 3));
    }
  }

 private:
  class Spoiled : public rpc::Channel {
   public:
    explicit Spoiled(World& world) : world_(world) {}
    Task<Result<rpc::Message, rpc::CallError>> Call(rpc::Message call, rpc::ReplyShape) override {
      rpc::Message reply = co_await world_.dispatcher_.HandleCall(std::move(call), world_.peer_);
      if (reply.empty()) co_return std::unexpected(rpc::CallError::kDisconnected);
      if (!world_.honest_) world_.Spoil(reply);
      co_return reply;
    }

   private:
    World& world_;
  };

  void Echo(rpc::GssService service) {
    const std::string text(input_.Octet(), static_cast<char>('a' + input_.Octet() % 26));
    std::optional<bool> ended;
    Spawn([](World& world, rpc::GssService how, const std::string& said, std::optional<bool>& out) -> Task<> {
      rpc::Client client(*world.channel_, world.pool_, world.xid_, rpc::ClientCredential(how));
      world.xid_ = rpc::Xid(world.xid_.value() + 1);
      const auto reply =
          co_await client.Call<rpc::testing::Echo>(xdr::StringView<2'000'000>(said), {.open = 3000, .results = {}});
      Require(!reply || how == rpc::GssService::kNone || reply->results == said);
      out = reply.has_value();
    }(*this, service, text, ended));
    Require(ended.has_value());
    if (!*ended) channel_ = std::make_unique<rpc::gss::SecuredChannel>(std::make_shared<Spoiled>(*this), context_);
  }

  Slice Copied(ConstBytes octets) {
    BufferRef buffer = pool_.Allocate(octets.size());
    CopyBytes(buffer->bytes(), octets);
    const ConstBytes bytes = buffer->bytes().first(octets.size());
    return Slice(std::move(buffer), bytes);
  }
  void Spoil(rpc::Message& reply) {
    const uint8_t how = input_.Octet();
    Octets octets = rpc::gss::testing::Copied(reply.stream.bytes());
    if (how % 4 == 1) octets[input_.Octet() % octets.size()] ^= std::byte{input_.Octet()};
    if (how % 4 == 2) octets.resize(input_.Octet() % octets.size());
    if (how % 4 == 3) {
      const ConstBytes more = input_.Take(input_.Octet());
      octets.resize(std::min<size_t>(octets.size(), input_.Octet()));
      octets.insert(octets.end(), more.begin(), more.end());
    }
    if (how % 4 != 0) reply = rpc::Message::Whole(Copied(octets));
  }

  BufferPool& pool_;
  Input& input_;
  rpc::gss::HastyClock clock_;
  rpc::testing::TestProgram program_;
  rpc::gss::testing::ToyMechanism server_;
  uint64_t handles_ = 0;
  rpc::gss::Acceptor acceptor_{{.mechanism = server_,
                                .clock = clock_,
                                .random =
                                    [this](Bytes room) {
                                      std::ranges::fill(room, std::byte{7});
                                      StoreBig(room.data(), ++handles_);
                                    },
                                .limits = {.established = 4}}};
  rpc::Dispatcher dispatcher_;
  rpc::Peer peer_;
  std::shared_ptr<rpc::gss::testing::ToyInitiatingMechanism> client_ =
      std::make_shared<rpc::gss::testing::ToyInitiatingMechanism>("alice");
  std::shared_ptr<rpc::gss::ClientContext> context_ =
      std::make_shared<rpc::gss::ClientContext>(rpc::gss::ClientContext::Parts{
          .mechanism = client_, .timers = clock_, .place = {.buffers = pool_}, .patience = std::chrono::seconds(20)});
  std::unique_ptr<rpc::Channel> channel_ =
      std::make_unique<rpc::gss::SecuredChannel>(std::make_shared<Spoiled>(*this), context_);
  rpc::Xid xid_{1};
  bool honest_ = false;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  BufferPool pool;
  {
    Input input(data, size);
    World world(pool, input);
    while (!input.empty()) world.Step();
  }
  Require(pool.outstanding() == 0);
  return 0;
}
