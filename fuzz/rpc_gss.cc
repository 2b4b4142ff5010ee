// Sends sequences of calls under RPCSEC_GSS, over a toy mechanism, to a dispatcher with its reply cache: valid calls,
// calls with errors, and arbitrary octets. Clients make CCM contexts as well, with correct tokens and with wrong ones.
// Each call must get at most one reply, with its own XID. A correctly sealed call must get a correct reply.
#include <algorithm>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "input.h"
#include "rpc/gss/acceptor.h"
#include "rpc/gss/test_conjunction.h"
#include "rpc/gss/test_mechanism.h"
#include "rpc/test_program.h"

namespace {

using namespace penstock;  // NOLINT: a program of its own
using fuzz::Input;
using rpc::gss::testing::Claimed;
using rpc::gss::testing::ConjunctionInitiator;
using rpc::gss::testing::Initiator;
using rpc::gss::testing::Octets;
using rpc::gss::testing::OctetsOf;
using rpc::gss::testing::Target;
using rpc::gss::testing::ToyInitiator;
using rpc::gss::testing::ToyMechanism;

void Require(bool condition) {
  if (!condition) std::abort();
}

struct FuzzClock : TimerService {
  TimePoint Now() const override { return now; }
  std::unique_ptr<Timer> MakeTimer(std::function<void()>) override { return nullptr; }
  TimePoint now{};
};

struct Client {
  Client(std::string name, BufferPool& pool) : toy(std::move(name)) { initiator.emplace(toy, pool); }
  ToyInitiator toy;
  std::optional<Initiator> initiator;
  // The client's side of a CCM context, or of an attempt to make one.
  std::optional<ConjunctionInitiator> ccm;
  std::optional<Initiator> conjoined;  // refers to `ccm`
};

class Server {
 public:
  explicit Server(BufferPool& pool) : pool_(pool) {
    peer_.buffers = &pool;
    peer_.address = {asio::ip::address_v4(0xc000'0201), 700};
    peer_.local = {asio::ip::address_v4(0xc000'0209), 2049};
    dispatcher_.Add(program_);
    dispatcher_.Offer(acceptor_);
    program_.data = Slice::Borrowed(AsBytes("what is read"));
    for (const char* name : {"alice", "bob", "mallory"}) clients_.push_back(std::make_unique<Client>(name, pool));
  }
  ~Server() { program_.Release(); }

  void Step(Input& input) {
    const uint8_t what = input.Octet();
    Client& client = *clients_[input.Octet() % clients_.size()];
    switch (what % 10) {
      case 0:
        return Send(rpc::Message::Whole(Copied(input.Take(input.Octet()))));
      case 1:
        return Create(client, input);
      case 2:
      case 3:
        return Call(*client.initiator, input);
      case 4:
        return CallWrongly(client, input);
      case 5:
        return Send(client.initiator->Destroy(rpc::Xid(++xid_), To(0), ServiceOf(input), NumberOf(input)));
      case 6:
        mechanism_.legs = 1 + input.Octet() % 3;
        mechanism_.lifetime = std::chrono::seconds(input.Octet());
        mechanism_.wraps = input.Octet() != 1;
        mechanism_.mics_to_give = input.Octet() == 1 ? input.Octet() : ~size_t{0};
        return;
      case 8:
        return Conjoin(client, input);
      case 9:
        if (client.conjoined) Call(*client.conjoined, input);
        return;
      default:
        clock_.now += std::chrono::seconds(input.Octet());
        return program_.Release();
    }
  }

 private:
  static Target To(uint32_t procedure) {
    return {.program = rpc::testing::kTestProgram, .version = 3, .procedure = procedure};
  }
  static rpc::GssService ServiceOf(Input& input) { return static_cast<rpc::GssService>(1 + input.Octet() % 3); }
  uint32_t NumberOf(Input& input) {
    const uint8_t kind = input.Octet();
    if (kind < 200) return ++number_;
    if (kind < 250) return number_ - kind;
    return 0x7fff'ff00u + kind;
  }
  Slice Copied(ConstBytes octets) {
    BufferRef buffer = pool_.Allocate(octets.size());
    CopyBytes(buffer->bytes(), octets);
    const ConstBytes bytes = buffer->bytes().first(octets.size());
    return Slice(std::move(buffer), bytes);
  }

  std::shared_ptr<rpc::Message> Start(rpc::Message call) {
    const ConstBytes stream = call.stream.bytes();
    const std::optional<uint32_t> xid =
        stream.size() >= 4 ? std::optional(LoadBig<uint32_t>(stream.data())) : std::nullopt;
    const auto reply = std::make_shared<rpc::Message>();
    Spawn([](Server& self, rpc::Message message, std::optional<uint32_t> of,
             std::shared_ptr<rpc::Message> out) -> Task<void> {
      *out = co_await self.dispatcher_.HandleCall(std::move(message), self.peer_);
      if (out->empty()) co_return;
      xdr::Decoder decoder(*out);
      rpc::ReplyHeader header;
      Require(rpc::DecodeReplyHeader(decoder, header) && of == header.xid.value());
    }(*this, std::move(call), xid, reply));
    return reply;
  }
  void Send(rpc::Message call) { Start(std::move(call)); }

  void Create(Client& client, Input& input) {
    if (client.initiator->established()) client.initiator.emplace(client.toy, pool_);
    rpc::Message call = client.initiator->Create(rpc::Xid(++xid_), To(input.Octet() % 16 == 1 ? 1 : 0));
    Spoil(call, input);
    const auto reply = Start(std::move(call));
    client.initiator->HandleCreated(*reply);
  }

  void Conjoin(Client& client, Input& input) {
    Claimed claimed{.cookie = client.initiator->handle(),
                    .number = NumberOf(input),
                    .client = OctetsOf(peer_.address.address()),
                    .server = OctetsOf(peer_.local.address())};
    const uint8_t wrong = input.Octet();
    if (wrong & 1) claimed.cookie = rpc::gss::testing::Copied(input.Take(input.Octet() % 20));
    if (wrong & 2) claimed.client = rpc::gss::testing::Copied(input.Take(input.Octet() % 17));
    if (wrong & 4) claimed.version = input.Octet();
    if ((wrong & 8) && client.conjoined) claimed.cookie = client.conjoined->handle();
    if (wrong & 16) rpc::gss::BodyOfConjunction(input.Take(input.Octet()));
    if (wrong & 32) rpc::gss::ParseConjunction(input.Take(input.Octet()));
    client.ccm.emplace(client.toy, std::move(claimed));
    client.conjoined.emplace(*client.ccm, pool_);
    rpc::Message call = client.conjoined->Create(rpc::Xid(++xid_), To(0));
    Spoil(call, input);
    client.conjoined->HandleCreated(*Start(std::move(call)));
    Require(!client.conjoined->established() || client.ccm->IsConfirmed(client.conjoined->handle()));
  }

  void Call(Initiator& client, Input& input) {
    const rpc::GssService service = ServiceOf(input);
    const uint32_t number = NumberOf(input);
    const uint32_t procedure = input.Octet() % 9;
    const uint32_t xid = input.Octet() % 4 == 0 ? xid_ : ++xid_;
    rpc::Message arguments = rpc::Message::Whole(Copied(Padded(input.Take(input.Octet()))));
    const rpc::Message call = client.Call(rpc::Xid(xid), To(procedure), service, number, arguments);
    const auto reply = Start(call);
    if (reply->empty()) return;
    xdr::Decoder decoder(*reply);
    rpc::ReplyHeader header;
    Require(rpc::DecodeReplyHeader(decoder, header));
    if (!header.body.is_areply()) return;
    Require(client.IsVerified(*reply, number));
    const bool succeeded = header.body.areply().reply_data.discriminant() == rpc::AcceptStatus::SUCCESS;
    Require(client.Open(*reply, service, number).has_value() == succeeded);
  }

  void CallWrongly(Client& client, Input& input) {
    rpc::gss::testing::Spoil spoil;
    const uint8_t wrong = input.Octet();
    if (wrong & 1) spoil.service = input.Octet() % 5;
    if (wrong & 2) spoil.gss_procedure = input.Octet() % 5;
    if (wrong & 4) spoil.sequence_within = input.Octet();
    if (wrong & 8) spoil.handle = rpc::gss::testing::Copied(input.Take(input.Octet() % 20));
    if (wrong & 16) spoil.version = input.Octet() % 4;
    spoil.seal = wrong & 32;
    spoil.verifier = wrong & 64;
    const rpc::Message arguments = rpc::Message::Whole(Copied(Padded(input.Take(input.Octet()))));
    rpc::Message call = client.initiator->Call(rpc::Xid(++xid_), To(input.Octet() % 9), ServiceOf(input),
                                               NumberOf(input), arguments, spoil);
    Spoil(call, input);
    Send(std::move(call));
  }

  // Alters the call in transit: changes an octet, truncates it, or moves a part of it to a payload.
  void Spoil(rpc::Message& call, Input& input) {
    const uint8_t how = input.Octet();
    Octets octets = rpc::gss::testing::Copied(call.stream.bytes());
    if (how % 4 == 1) octets[input.Octet() % octets.size()] ^= std::byte{input.Octet()};
    if (how % 4 == 2) octets.resize(input.Octet() % octets.size());
    call.stream = Copied(octets);
    if (how % 4 != 3) return;
    const size_t offset = std::min<size_t>(call.stream.size(), RoundUp(input.Octet(), 4));
    call.items.push_back({.offset = offset, .data = Copied(input.Take(input.Octet() % 16))});
  }
  static Octets Padded(ConstBytes octets) {
    Octets padded = rpc::gss::testing::Copied(octets);
    padded.resize(RoundUp(padded.size(), 4));
    return padded;
  }

  BufferPool& pool_;
  FuzzClock clock_;
  rpc::ReplyCache cache_{{.entries = 32}};
  rpc::testing::TestProgram program_;
  ToyMechanism mechanism_;
  uint64_t handles_ = 0;
  rpc::gss::Acceptor acceptor_{
      {.mechanism = mechanism_,
       .clock = clock_,
       .random =
           [this](Bytes room) {
             std::ranges::fill(room, std::byte{7});
             StoreBig(room.data(), ++handles_);
           },
       .limits = {.established = 4, .begun = 4, .begun_by_one_address = 3, .begun_for = std::chrono::seconds(30)},
       .is_protected = [](const IpAddress&) { return true; }}};
  rpc::Dispatcher dispatcher_{cache_, clock_};
  rpc::Peer peer_;
  std::vector<std::unique_ptr<Client>> clients_;
  uint32_t xid_ = 0;
  uint32_t number_ = 300;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  BufferPool pool;
  {
    Server server(pool);
    Input input(data, size);
    while (!input.empty()) server.Step(input);
  }
  Require(pool.outstanding() == 0);
  return 0;
}
