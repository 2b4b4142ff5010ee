// Registers services with an rpcbind, and asks programs of this host whether they run, while the replies are arbitrary.
//
// Input, for each reply: an octet whose bits choose an error, a header that is given or made, or a list of entries that
// the target makes; an octet for the length, then the octets.
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "input.h"
#include "protocol/rpcb.h"
#include "rpc/header.h"
#include "rpcbind/registrar.h"
#include "xdr/encode.h"

namespace {

using namespace penstock;  // NOLINT: a program of its own
using fuzz::Input;

class ArbitraryChannel final : public rpc::Channel {
 public:
  ArbitraryChannel(Input& input, BufferPool& pool) : input_(input), pool_(pool) {}

  Task<Result<rpc::Message, rpc::CallError>> Call(rpc::Message call, rpc::ReplyShape /*shape*/) override {
    const uint8_t kind = input_.Octet();
    const ConstBytes octets = input_.Take(input_.Octet());
    if (kind % 8 == 0) co_return std::unexpected(static_cast<rpc::CallError>(kind / 8 % 7));
    xdr::Encoder encoder(pool_);
    // Most replies have a header, so that they reach the decoder of the results.
    if (kind % 8 > 1)
      rpc::EncodeAccepted(encoder, rpc::Xid(LoadBig<uint32_t>(call.stream.data())), rpc::AcceptStatus::SUCCESS);
    if (kind % 8 > 4) WriteEntry(encoder, octets);
    if (kind % 8 <= 4) encoder.Fixed(octets.first(octets.size() / 4 * 4));
    co_return encoder.Finish();
  }

 private:
  static void WriteEntry(xdr::Encoder& encoder, ConstBytes octets) {
    const size_t half = octets.size() / 2;
    const std::string_view netid = octets.size() % 3 == 0   ? AsText(octets.first(half))
                                   : octets.size() % 3 == 1 ? "tcp"
                                                            : "udp6";
    const pmap::rpcblist list{{{100003, 3, netid, AsText(octets.subspan(half)), AsText(octets)}}};
    xdr::Encode(encoder, list);
  }

  Input& input_;
  BufferPool& pool_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Input input(data, size);
  rpcbind::Registrar registrar(
      {{100003, 3, {rpc::TransportKind::kTcp, false}, SocketAddress(asio::ip::address_v4::any(), 2049)},
       {100003, 3, {rpc::TransportKind::kRdma, true}, SocketAddress(asio::ip::address_v6::any(), 20049)},
       {100005, 3, {rpc::TransportKind::kUdp, false}, SocketAddress(asio::ip::address_v4::any(), 20048)}},
      {.sockets = {"one", "two"}, .connect = [&input](const rpcbind::Destination&, BufferPool& pool) {
         return std::make_unique<ArbitraryChannel>(input, pool);
       }});
  if (!registrar.Require() && input.empty()) return 0;
  while (!input.empty()) registrar.Refresh();
  registrar.Withdraw();
  return 0;
}
